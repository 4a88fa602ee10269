"""Reports of bone studies, from their state: FINDINGS and IMPRESSION, about eight sentences."""

import textwrap

import numpy as np

from cxr_hospital.grammar import Slots, expand, pick, write
from cxr_hospital.musculoskeletal.abnormalities import KINDS, Abnormality
from cxr_hospital.musculoskeletal.study import BoneStudy
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording import musculoskeletal as words
from cxr_hospital.wording.spelling import misspell

_STREAM = 33
#: How often each absent abnormality is denied, in the order of the sentences.
_DENIED = {
    "fracture": 0.9,
    "dislocation": 0.85,
    "degeneration": 0.8,
    "lytic lesion": 0.55,
    "hardware": 0.35,
}


def bone_report(settings: HospitalSettings, study: BoneStudy) -> str:
    """The report's text; depends on the seed and the study alone."""
    rng = np.random.default_rng([settings.seed, _STREAM, study.index, study.number])
    lines = [f"EXAMINATION: {study.side.upper()} {study.region.upper()}, {len(study.films)} VIEWS"]
    if rng.random() < 0.8:
        question = expand(pick(words.QUESTIONS, rng), rng)
        lines.append(f"INDICATION: ___{study.sex} with {study.side} {study.region} {question}.")
    if rng.random() < 0.5:
        lines.append("COMPARISON: None.")
    findings, impression = bone_sentences(study, rng)
    findings, impression = (
        [misspell(text, rng) if rng.random() < settings.typo_share else text for text in section]
        for section in (findings, impression)
    )
    if len(impression) > 1 and rng.random() < 0.5:
        impression = [f"{number}. {text}" for number, text in enumerate(impression, 1)]
    for heading, section in (("FINDINGS", findings), ("IMPRESSION", impression)):
        lines += ["", f"{heading}:", *textwrap.wrap(" ".join(section), 79)]
    return "\n".join(lines) + "\n"


def bone_sentences(study: BoneStudy, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Sentences of FINDINGS and of IMPRESSION: all abnormalities, and some denials."""
    place: Slots = {"side": study.side, "part": study.region}
    by_urgency = sorted(study.defects, key=lambda defect: KINDS.index(defect.kind))
    findings: list[str] = []
    if rng.random() < 0.7:
        findings.append(write(pick(words.VIEWS[len(study.films)], rng), rng, place).text)
    for defect in by_urgency:
        slots = _slots(study, defect)
        findings.append(write(pick(words.FOUND[defect.kind], rng), rng, slots).text)
        further = words.FURTHER[defect.kind]
        chosen = rng.permutation(len(further))[: int(rng.integers(1, 4))]
        findings += [write(further[number], rng, slots).text for number in sorted(chosen)]
    swollen = {"fracture", "dislocation"} & {defect.kind for defect in study.defects}
    findings += _absences(study, rng)
    if rng.random() < 0.75:
        findings.append(write(pick(words.MINERALISATION, rng), rng).text)
    if not swollen and rng.random() < 0.85:
        findings.append(write(pick(words.SOFT_TISSUES, rng), rng).text)
    impression = [
        write(pick(words.SUMMED[d.kind], rng), rng, _slots(study, d)).text for d in by_urgency
    ]
    if not study.defects:
        impression.append(write(pick(words.NORMAL, rng), rng, place).text)
        if rng.random() < 0.3:
            impression.append(write(pick(words.ADVICE, rng), rng).text)
    elif not swollen and rng.random() < 0.6:
        impression.append(write("No acute {fracture|fracture or dislocation}.", rng).text)
    return findings, impression


def _slots(study: BoneStudy, defect: Abnormality) -> Slots:
    """Slots: ``site``, now and then with its side, and ``degree`` by severity."""
    site = f"{{{study.side}|}} {defect.site.words}"
    return {"site": site, "degree": words.DEGREES[defect.kind][defect.grade]}


def _absences(study: BoneStudy, rng: np.random.Generator) -> list[str]:
    """Denials of absent abnormalities; alignment is only normal where no bone has moved."""
    kinds = {defect.kind for defect in study.defects}
    sentences = []
    for kind, share in _DENIED.items():
        denied, text = rng.random() < share, write(pick(words.ABSENT[kind], rng), rng).text
        moved = kind == "dislocation" and "fracture" in kinds and "lignment" in text
        if denied and kind not in kinds and not moved:
            sentences.append(text)
    return sentences
