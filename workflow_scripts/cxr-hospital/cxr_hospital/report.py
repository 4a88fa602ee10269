"""Radiology reports of the synthetic hospital, written from a study's true state.

The text has MIMIC-CXR's layout: a centred FINAL REPORT, a leading space on every line, lines of at
most 79 characters, upper-case section headings, ``___`` where words were removed, and the
irregularities of the real collection (wet reads, addenda, missing and empty sections, a heading
FINDINGS AND IMPRESSION, reports without headings of findings). The form of a report is independent
of its findings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cxr_hospital import statements
from cxr_hospital.course import GROUNDED, Finding
from cxr_hospital.grammar import OBSERVATIONS, OTHER_FINDING, Sentence, pick, write
from cxr_hospital.layout import lay_out
from cxr_hospital.patient import Patient, Study
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording import context
from cxr_hospital.wording.spelling import misspell

#: How often the IMPRESSION denies each absent observation, and FINDINGS, which go through the chest
#: systematically.
_DENIED = {
    "Pneumonia": (0.50, 0.15),
    "Pneumothorax": (0.28, 0.85),
    "Pleural Effusion": (0.28, 0.80),
    "Edema": (0.18, 0.35),
    "Consolidation": (0.20, 0.65),
    "Cardiomegaly": (0.12, 0.0),
    "Lung Opacity": (0.06, 0.12),
    "Lung Lesion": (0.06, 0.10),
    "Fracture": (0.05, 0.12),
    "Atelectasis": (0.04, 0.04),
    "Support Devices": (0.02, 0.0),
    "Enlarged Cardiomediastinum": (0.06, 0.10),
    "Pleural Other": (0.03, 0.10),
}
#: Where a mediastinum is wide, what says that it is normal is left out.
_OF_HEART_ALONE, _OF_AORTA = context.HEART_NORMAL[:-1], context.MEDIASTINUM[2:]
_MOST_DENIED = 4
_STREAM = 31


@dataclass(frozen=True)
class PatientReport:
    """One report.

    ``text``: the file. ``findings``, ``impression``: their sentences as they stand in the text,
    list numbers left out; empty where the report has no such section. ``last_paragraph``:
    sentences of a report without section headings, else empty. ``phrases``: for each finding of
    an MS-CXR class, (its key, a phrase). ``labels``: CheXpert observation -> 1, 0 or -1 as
    written in the section that MIMIC-CXR-JPG's labels come from (impression, else findings, else
    last paragraph); an observation that is not mentioned is left out. ``diagnostic``:
    (observation, section, number from 0) of the sentences that say it is there.
    """

    text: str
    findings: tuple[str, ...]
    impression: tuple[str, ...]
    last_paragraph: tuple[str, ...]
    phrases: tuple[tuple[int, str], ...]
    labels: dict[str, int]
    diagnostic: tuple[tuple[str, str, int], ...]


def _by_urgency(study: Study) -> list[Finding]:
    return sorted(study.findings, key=lambda finding: statements.URGENCY.index(finding.name))


def _denied(
    study: Study, section: int, rng: np.random.Generator, further: Sequence[str]
) -> list[str]:
    """Observations that the IMPRESSION (``section`` 0) or FINDINGS (1) denies."""
    names = statements.deniable(study, further)
    return [name for name in names if rng.random() < _DENIED[name][section]]


def _impression(
    study: Study, rng: np.random.Generator, settings: HospitalSettings
) -> list[Sentence]:
    """Positives first, then what has resolved, then negations; one to about six sentences."""
    names, further = {finding.name for finding in study.findings}, statements.further_in(settings)
    stock = settings.stock_impression_share
    if stock and not names - {"Support Devices"} and rng.random() < stock:
        return [write(context.STOCK, rng)]
    mentioned = [
        finding
        for finding in _by_urgency(study)
        if rng.random() < (0.85 if finding.name == "Support Devices" else 0.97)
    ]
    pathologies = [finding for finding in mentioned if finding.name != "Support Devices"]
    sentences: list[Sentence] = []
    if len(pathologies) > 1 and rng.random() < 0.2:
        sentences.append(statements.pair(pathologies[0], pathologies[1], rng))
        mentioned = [finding for finding in mentioned if finding not in pathologies[:2]]
    for finding in mentioned:
        if settings.misleading_share and rng.random() < settings.misleading_share:
            aside = statements.misleading(finding, study, rng)
            sentences += [] if aside is None else [aside]
        sentences.append(
            statements.present(
                finding,
                study.changes.get(finding.key),
                rng,
                impression=True,
                exact_names=settings.exact_name_share,
            )
        )
    sentences += [
        statements.resolved(finding, rng) for finding in study.resolved if rng.random() < 0.7
    ]
    everything_stays = set(study.changes.values()) == {"stable"} and not study.resolved
    if everything_stays and rng.random() < 0.25:
        sentences.append(write(pick(context.NO_CHANGE, rng), rng))
    allowed = statements.deniable(study, further)
    if not names & context.ACUTE and rng.random() < 0.5:
        options = context.NO_ACUTE_PROCESS if not names else context.NO_ACUTE_PROCESS[:-1]
        sentences.append(write(pick(options, rng), rng))
    denied = _denied(study, 0, rng, further)[:_MOST_DENIED]
    sentences += statements.absences(denied, rng)
    for name in context.EXCLUSIONS:
        if name in allowed and name not in denied and rng.random() < 0.02:
            sentences.append(write(pick(context.EXCLUSIONS[name], rng), rng))
    if not sentences and study.findings:
        first = _by_urgency(study)[0]
        sentences.append(
            statements.present(first, study.changes.get(first.key), rng, impression=True)
        )
    if not sentences:
        sentences.append(write(pick(context.NO_ACUTE_PROCESS, rng), rng))
    if names & context.ACUTE and rng.random() < 0.07:
        sentences.append(write(pick(context.RECOMMENDATIONS, rng), rng))
    return sentences


def _findings(study: Study, rng: np.random.Generator, settings: HospitalSettings) -> list[Sentence]:
    """Devices, lungs, pleura, heart, mediastinum, bones, abdomen: findings and normal anatomy."""
    names = {finding.name for finding in study.findings}
    further = statements.further_in(settings)
    present = [
        statements.present(
            finding,
            study.changes.get(finding.key),
            rng,
            impression=False,
            exact_names=settings.exact_name_share,
        )
        for finding in study.findings
    ]
    sentences: list[Sentence] = []

    def say(templates: Sequence[str], chance: float) -> None:
        if rng.random() < chance:
            sentences.append(write(pick(templates, rng), rng))

    def tell(*which: str) -> None:
        sentences.extend(
            sentence
            for name in which
            for finding, sentence in zip(study.findings, present, strict=True)
            if finding.name == name
        )

    tell("Support Devices")
    deep = max(image.inspiration for image in study.images)
    say(context.VOLUMES_LOW if deep < 0.4 else context.VOLUMES_NORMAL, 0.3)
    if any(abs(image.rotation) > 4 for image in study.images):
        say(context.ROTATION, 0.5)
    lungs = (
        *("Pneumonia", "Consolidation", "Lung Opacity", "Lung Lesion", "Atelectasis", "Edema"),
        *("Emphysema", "Fibrosis"),
    )
    tell(*lungs)
    clear = not names & set(lungs)
    say(context.LUNGS_CLEAR if clear else context.LUNGS_OTHERWISE, 0.6 if clear else 0.3)
    tell("Pneumothorax", "Pleural Effusion", "Pleural Other")
    sentences += [
        statements.resolved(finding, rng) for finding in study.resolved if rng.random() < 0.5
    ]
    sentences += statements.absences(_denied(study, 1, rng, further), rng)
    tell("Cardiomegaly", "Enlarged Cardiomediastinum")
    wide = "Enlarged Cardiomediastinum" in names
    if "Cardiomegaly" not in names:
        say(_OF_HEART_ALONE if wide else context.HEART_NORMAL, 0.8)
    say(_OF_AORTA if wide else context.MEDIASTINUM, 0.5)
    tell("Hernia")
    tell("Fracture")
    if "Fracture" not in names:
        say(context.BONES, 0.35)
    say(context.SPINE, 0.12)
    say(context.ABDOMEN, 0.2)
    return sentences


def _labels(sentences: Sequence[Sentence]) -> dict[str, int]:
    """Join mentions as CheXpert does: present beats uncertain beats absent."""
    rank = {1: 2, -1: 1, 0: 0}
    labels: dict[str, int] = {}
    for sentence in sentences:
        for name, state in sentence.mentions:
            if name not in labels or rank[state] > rank[labels[name]]:
                labels[name] = state
    unspecific = ("No Finding", "Support Devices")
    abnormal = any(state != 0 for name, state in labels.items() if name not in unspecific)
    labels.pop("No Finding", None)
    labels.pop(OTHER_FINDING, None)
    if not abnormal:
        labels["No Finding"] = 1
    return {name: labels[name] for name in sorted(labels)}


def _typed(sentences: Sequence[Sentence], rng: np.random.Generator, share: float) -> list[Sentence]:
    return [
        Sentence(misspell(sentence.text, rng), sentence.mentions)
        if rng.random() < share
        else sentence
        for sentence in sentences
    ]


def write_report(
    patient: Patient,
    study: Study,
    rng: np.random.Generator,
    settings: HospitalSettings | None = None,
) -> PatientReport:
    """Write the report of ``study``; ``settings`` gives the shares of sections and of typos."""
    settings = settings or HospitalSettings()
    findings = _typed(_findings(study, rng, settings), rng, settings.typo_share)
    impression = _typed(_impression(study, rng, settings), rng, settings.typo_share)
    names = [finding.name for finding in study.findings]
    phrases = tuple(
        (finding.key, statements.phrase(finding, rng, alone=names.count(finding.name) == 1))
        for finding in study.findings
        if finding.name in GROUNDED
    )
    has_impression = rng.random() < settings.impression_share
    has_findings = rng.random() < settings.findings_section_share
    headless = not has_impression and rng.random() < 0.3
    paragraph: list[Sentence] = []
    if headless:
        paragraph, findings, impression = impression, [], []
    elif not has_impression:
        impression = []
    elif not has_findings:
        findings = []
    finding_texts, impression_texts, paragraph_texts = (
        tuple(sentence.text for sentence in section)
        for section in (findings, impression, paragraph)
    )
    text = lay_out(patient, study, rng, finding_texts, impression_texts, paragraph_texts)
    labels = _labels(impression or findings or paragraph)
    sections = {"impression": impression, "findings": findings, "last_paragraph": paragraph}
    diagnostic = tuple(
        (name, section, number)
        for section, sentences in sections.items()
        for number, sentence in enumerate(sentences)
        for name in dict.fromkeys(name for name, state in sentence.mentions if state == 1)
        if name not in ("No Finding", OTHER_FINDING)
    )
    texts = (finding_texts, impression_texts, paragraph_texts)
    return PatientReport(text, *texts, phrases, labels, diagnostic)


def report_of(settings: HospitalSettings, patient: Patient, study: Study) -> PatientReport:
    """The report that the hospital holds for ``study``; depends on seed and study alone."""
    number = patient.studies.index(study)
    rng = np.random.default_rng([settings.seed, _STREAM, patient.index, number])
    return write_report(patient, study, rng, settings)


def labels_of(settings: HospitalSettings, patient: Patient, study: Study) -> dict[str, int | None]:
    """All 14 CheXpert observations as written in the study's report; None where not mentioned."""
    labels = report_of(settings, patient, study).labels
    return {name: labels.get(name) for name in sorted(OBSERVATIONS.values())}
