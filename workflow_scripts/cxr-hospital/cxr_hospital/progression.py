"""Progression of findings between two studies: the truth, and the words of the report.

BioViL-T Appendix C: five findings improve, stay or worsen from one study to the next; a finding
with several directions (a left effusion grows, a right one does not) has no label. Silver labels
come from the words of the report, as Chest ImaGenome's do, and so miss what it does not mention.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cxr_hospital.acquisition import FRONTAL_VIEWS, Acquisition
from cxr_hospital.course import PROGRESSING, Finding
from cxr_hospital.patient import Patient, Study

FINDINGS = tuple(PROGRESSING)
IMPROVING, STABLE, WORSENING = "improving", "stable", "worsening"
DIRECTIONS = {"new": WORSENING, "worsened": WORSENING, "improved": IMPROVING, "stable": STABLE}
#: Names of the findings in reports. Chest ImaGenome has one attribute for edema and haziness.
_NAMES = {
    "Consolidation": r"consolidations?\b",
    "Edema": r"edema\b",
    "Pleural Effusion": r"effusions?\b|pleural fluids?\b",
    "Pneumonia": r"pneumonia\b",
    "Pneumothorax": r"pneumothorax\b",
}
#: Words of change, those that decide first: "no change in" before "change", "resolving" and
#: "residual" are better, "new" and "developing" worse.
_WORDS = (
    (
        STABLE,
        r"\bno (?:\w+ ){0,2}change|not significantly changed"
        r"|\b(?:unchanged|stable|persistent|similar)\b",
    ),
    (IMPROVING, r"\b(?:improv|decreas|resolv|resolution|cleared)|\bresidual\b|\bno longer\b"),
    (WORSENING, r"\b(?:worse|increas|progress|new\b|newly\b|development of|appearance of)"),
)
#: "No relevant change since the prior study" is about every finding.
_NOTHING_CHANGED = r"\bno (?:\w+ ){0,2}change\b(?! in)"


@dataclass(frozen=True)
class ImagePair:
    """Two studies of a patient in order of time, and a frontal image of each."""

    patient: Patient
    prior_study: Study
    study: Study
    prior: Acquisition
    current: Acquisition


def frontals(study: Study) -> list[Acquisition]:
    """The images with a frontal view in the header."""
    return [image for image in study.images if image.view in FRONTAL_VIEWS]


def good_frontals(study: Study) -> list[Acquisition]:
    """The frontal images that are not spoilt."""
    return [image for image in frontals(study) if not image.spoilt]


def study_pairs(patient: Patient) -> Iterator[tuple[Study, Study]]:
    """Pairs of a study and its prior; studies at the same instant are not paired."""
    return ((a, b) for a, b in pairwise(patient.studies) if a.time < b.time)


def good_pairs(patient: Patient) -> Iterator[ImagePair]:
    """Pairs of studies with the first frontal image of each that is not spoilt."""
    for prior_study, study in study_pairs(patient):
        priors, currents = good_frontals(prior_study), good_frontals(study)
        if priors and currents:
            yield ImagePair(patient, prior_study, study, priors[0], currents[0])


def true_directions(study: Study) -> dict[str, frozenset[str]]:
    """Directions of the five findings since the prior study, by name; none for an absent one."""
    changes = [(f.name, DIRECTIONS[study.changes[f.key]]) for f in study.findings if study.changes]
    changes += [(finding.name, IMPROVING) for finding in study.resolved]
    return {
        name: directions
        for name in FINDINGS
        if (directions := frozenset(way for changed, way in changes if changed == name))
    }


def true_label(study: Study, finding: str) -> str | None:
    """The one direction of a finding; None where it has none or several."""
    directions = true_directions(study).get(finding, frozenset())
    return next(iter(directions)) if len(directions) == 1 else None


def least_step(prior_study: Study, study: Study, finding: str) -> float:
    """The least change of severity among the findings of that name; inf where none is in both."""
    before = {state.key: state.severity for state in prior_study.findings}
    steps = [
        abs(state.severity - before[state.key])
        for state in study.findings
        if state.name == finding and state.key in before
    ]
    return min(steps, default=float("inf"))


@dataclass(frozen=True)
class ChangeMention:
    """A sentence of a report about the change of a finding; ``of``: those that it may mean."""

    finding: str
    direction: str
    sentence: str
    of: tuple[Finding, ...]


def mentions(study: Study, sentences: Sequence[str]) -> list[ChangeMention]:
    """Mentions of change in a study's report, one a sentence and finding, in their order.

    A sentence may name a finding that the study does not have; then ``of`` is empty.
    """
    statements = []
    for sentence in dict.fromkeys(sentences):
        direction = direction_of(sentence)
        if direction is None:
            continue
        everything = re.search(_NOTHING_CHANGED, sentence, re.IGNORECASE) is not None
        for name, pattern in _NAMES.items():
            if everything or re.search(pattern, sentence, re.IGNORECASE):
                of = _meant(study, name, sentence)
                statements.append(ChangeMention(name, direction, sentence, of))
    return statements


def direction_of(sentence: str) -> str | None:
    """The direction of change in the words of a sentence; None without such a word."""
    directions = (way for way, words in _WORDS if re.search(words, sentence, re.IGNORECASE))
    return next(directions, None)


def _meant(study: Study, name: str, sentence: str) -> tuple[Finding, ...]:
    """The findings of that name that a sentence can mean, by the side it names."""
    candidates = [f for f in (*study.findings, *study.resolved) if f.name == name]
    sides: Mapping[str, str] = {"left": r"\bleft", "right": r"\bright"}
    named_sides = {side for side, word in sides.items() if re.search(word, sentence, re.IGNORECASE)}
    return tuple(f for f in candidates if not named_sides or f.side in (*named_sides, "both"))
