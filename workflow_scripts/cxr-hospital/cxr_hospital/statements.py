"""Sentences of a report about one study: findings, absences and changes.

Every sentence carries its mentions (see ``grammar``). Only observations that are absent from the
study's true state are denied (``wording.context.BLOCKERS``).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cxr_hospital.course import Finding
from cxr_hospital.grammar import Sentence, pick, write
from cxr_hospital.patient import Study
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording import chronic, class_names, context, devices, places
from cxr_hospital.wording.observations import wording_of

#: Positives are listed with the most urgent first.
URGENCY = (
    *("Pneumothorax", "Pneumonia", "Consolidation", "Edema", "Pleural Effusion", "Lung Opacity"),
    *("Lung Lesion", "Enlarged Cardiomediastinum", "Atelectasis", "Cardiomegaly", "Fracture"),
    *("Fibrosis", "Emphysema", "Pleural Other", "Hernia", "Support Devices"),
)
_HEDGED = {"mild": 0.20, "moderate": 0.07, "severe": 0.02}
#: How often the IMPRESSION leaves out a finding's place ("Findings suggesting pneumonia."); it then
#: stands in FINDINGS.
_UNPLACED = {
    "Atelectasis": 0.2,
    "Consolidation": 0.3,
    "Edema": 0.5,
    "Lung Opacity": 0.2,
    "Pleural Effusion": 0.2,
    "Pneumonia": 0.4,
    "Pneumothorax": 0.2,
}
_RIBS = {
    "upper": "{third|fourth|3rd}",
    "middle": "{fifth|sixth|6th}",
    "lower": "{eighth|8th|ninth}",
}


def slots_of(finding: Finding) -> dict[str, str]:
    """The slots that the templates of ``wording.observations`` and ``.context`` may name."""
    wording = wording_of(finding.name, finding.zone)
    paired = finding.side == "both"
    sided = finding.side in ("left", "right", "both")
    # A lobe holds no pleural air.
    pleural = finding.name == "Pneumothorax" and finding.zone == "base"
    zone = "pleural base" if pleural else finding.zone
    side = "bilateral" if paired else finding.side
    grade = finding.grade
    plural = paired and finding.name in ("Pleural Effusion", "Lung Opacity")
    return {
        "deg": wording.degrees[grade],
        "degly": {"mild": "{mildly|slightly}", "moderate": "moderately"}.get(
            grade, "{severely|markedly|massively}"
        ),
        "grade": context.GRADES[grade],
        "side": side,
        "sidenoun": "both sides" if paired else f"the {side}",
        "costophrenic": "both costophrenic angles" if paired else f"the {side} costophrenic angle",
        "baseplace": "both lung bases" if paired else f"the {side} {{lung base|base}}",
        "lat": places.laterality(finding.side),
        "adj": places.adjective(finding.side, zone),
        "place": places.noun(finding.side, zone),
        "at": " in $place" if sided else "",
        "onside": " on $sidenoun" if sided else "",
        "where": ", {most pronounced|greatest|predominantly} in $place" if sided else "",
        "pis": "are" if paired else "is",
        "s": "s" if plural else "",
        "ies": "ies" if plural else "y",
        "is": "are" if plural else "is",
        "has": "have" if plural else "has",
        "a": "a" if wording.countable and not plural else "",
        "lesion": "nodule" if finding.kind == "nodule" else "mass",
        "healing": "healing" if finding.kind == "healing" else "{acute|}",
        "nth": "{posterior|lateral|anterior|} " + _RIBS.get(finding.zone, "sixth"),
    }


def _full_and_bare(finding: Finding, rng: np.random.Generator) -> dict[str, str]:
    wording = wording_of(finding.name, finding.zone)
    slots = slots_of(finding)
    return slots | {"np": pick(wording.full, rng), "bare": pick(wording.bare, rng)}


def _device_slots(finding: Finding, rng: np.random.Generator) -> dict[str, str]:
    nouns, positions = devices.DEVICES[finding.kind]
    plural = finding.kind in devices.PLURAL
    side = finding.side if finding.side in ("left", "right") else ""
    noun = pick(nouns, rng)
    return {
        "device": noun,
        "adevice": noun if plural else f"a {noun}",
        "position": pick(positions, rng),
        "lat": places.laterality(finding.side),
        "side": side,
        "is": "are" if plural else "is",
        "has": "have" if plural else "has",
    }


def present(
    finding: Finding,
    change: str | None,
    rng: np.random.Generator,
    *,
    impression: bool,
    exact_names: float = 0.0,
) -> Sentence:
    """A sentence saying that ``finding`` is there; mild findings are hedged more often.

    ``change`` (new, improved, stable, worsened or None) is mentioned more often than not.
    ``exact_names``: share of sentences that call the finding by the name of its class.
    """
    device = finding.name == "Support Devices"
    of_class = finding.name in class_names.PRESENT and finding.kind != "sternal wires"
    if exact_names and of_class and rng.random() < exact_names:
        slots = _device_slots(finding, rng) if device else slots_of(finding)
        return write(class_names.PRESENT[finding.name], rng, slots)
    if device:
        options = devices.CHANGES.get(change) if change and rng.random() < 0.6 else None
        return write(pick(options or devices.STATES, rng), rng, _device_slots(finding, rng))
    wording = wording_of(finding.name, finding.zone)
    if change is not None and rng.random() < (0.55 if impression else 0.45):
        return write(pick(context.CHANGED[change], rng), rng, _full_and_bare(finding, rng))
    if rng.random() < _HEDGED[finding.grade]:
        return write(pick(wording.hedges, rng), rng, slots_of(finding))
    if impression and rng.random() < _UNPLACED.get(finding.name, 0.0):
        return _unplaced(finding, rng)
    templates = wording.sums * 2 if impression else wording.describes
    return write(pick(wording.states + templates, rng), rng, slots_of(finding))


def pair(first: Finding, second: Finding, rng: np.random.Generator) -> Sentence:
    """Two findings in one sentence, as in "Small left pleural effusion and mild edema."."""
    joint = "{$one and $two*3|$one with $two|$one, and $two|There $is $a $one and $two}."
    slots = slots_of(first)
    head = write(pick(wording_of(first.name, first.zone).full, rng), rng, slots)
    tail = write(pick(wording_of(second.name, second.zone).full, rng), rng, slots_of(second))
    lower = {slot: s.text[0].lower() + s.text[1:] for slot, s in (("one", head), ("two", tail))}
    sentence = write(joint, rng, lower | {"is": slots["is"], "a": slots["a"]})
    return Sentence(sentence.text, head.mentions + tail.mentions)


def _unplaced(finding: Finding, rng: np.random.Generator) -> Sentence:
    """A sentence that names the finding without saying where."""
    bare = replace(finding, side="none", zone="")
    options = [text for text in wording_of(bare.name, "").sums if "$sidenoun" not in text]
    return write(pick(options, rng), rng, slots_of(bare))


def phrase(finding: Finding, rng: np.random.Generator, *, alone: bool) -> str:
    """A phrase for MS-CXR: one finding, no word of change, at most 30 words.

    Half of the phrases are in words that no report has. A finding that is the only one of its name
    (``alone``) is named without its place as often as in reports.
    """
    unplaced = alone and rng.random() < _UNPLACED.get(finding.name, 0.0)
    wording = wording_of(finding.name, "" if unplaced else finding.zone)
    if wording.held_out and rng.random() < 0.5:
        stated = replace(finding, side="none", zone="") if unplaced else finding
        text = write(pick(wording.held_out, rng), rng, slots_of(stated)).text
    elif unplaced:
        text = _unplaced(finding, rng).text
    else:
        hedged = rng.random() < 0.5 * _HEDGED[finding.grade]
        options = wording.hedges if hedged else wording.states + wording.sums
        text = write(pick(options, rng), rng, slots_of(finding)).text
    text = text.rstrip(".")
    return text[0].lower() + text[1:] if rng.random() < 0.4 else text


def resolved(finding: Finding, rng: np.random.Generator) -> Sentence:
    """A sentence saying that a finding of the prior study is gone."""
    if finding.name == "Support Devices":
        sentence = write(pick(devices.RESOLVED, rng), rng, _device_slots(finding, rng))
    else:
        sentence = write(pick(context.RESOLVED, rng), rng, _full_and_bare(finding, rng))
    return Sentence(sentence.text, tuple((name, 0) for name, _ in sentence.mentions))


def misleading(finding: Finding, study: Study, rng: np.random.Generator) -> Sentence | None:
    """A sentence with the name of a finding's class about the opposite side, where it is absent.

    None if the finding has no side, or if something on the opposite side would make the sentence
    false.
    """
    other = {"left": "right", "right": "left"}.get(finding.side)
    if other is None or finding.name not in class_names.ABSENT_SIDE:
        return None
    there = {f.name for f in study.findings if f.side in (other, "both")}
    if there & context.BLOCKERS[finding.name]:
        return None
    gone = any((f.name, f.side) == (finding.name, other) for f in study.resolved)
    templates = class_names.SIDE_RESOLVED if gone else class_names.NO_SIDE
    what = class_names.ABSENT_SIDE[finding.name]
    return write(pick(templates, rng), rng, {"what": what, "side": other})


def deniable(study: Study, further: Sequence[str] = ()) -> list[str]:
    """Observations whose absence may be stated without contradicting the study.

    ``further``: the additional ones that the hospital has (``further_in``).
    """
    names = {finding.name for finding in study.findings}
    usual = [name for name, blockers in context.BLOCKERS.items() if not names & blockers]
    return usual + [name for name in further if not names & chronic.BLOCKERS[name]]


def further_in(settings: HospitalSettings) -> list[str]:
    """Observations that hospitals of these settings add; reports of others never deny them."""
    long_tail = settings.prevalence == "long_tail"
    return [n for n in chronic.ABSENT if long_tail or n in (settings.further_findings or {})]


def absences(names: Sequence[str], rng: np.random.Generator) -> list[Sentence]:
    """Negations of ``names`` in sentences of one, two or three; pneumonia is often alone."""
    remaining = [names[int(i)] for i in rng.permutation(len(names))]
    sentences = []
    if "Pneumonia" in remaining and rng.random() < 0.65:
        remaining.remove("Pneumonia")
        sentences.append(_absent(["Pneumonia"], rng))
    while remaining:
        size = min(len(remaining), 1 + int(rng.random() * 3))
        sentences.append(_absent(remaining[:size], rng))
        remaining = remaining[size:]
    return sentences


def _absent(names: Sequence[str], rng: np.random.Generator) -> Sentence:
    templates = (context.ONE_ABSENT, context.TWO_ABSENT, context.THREE_ABSENT)[len(names) - 1]
    absent = {**context.ABSENT, **chronic.ABSENT}
    slots = {slot: absent[name] for slot, name in zip("xyz", names, strict=False)}
    return write(pick(templates, rng), rng, slots)
