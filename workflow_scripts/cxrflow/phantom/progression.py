"""What truly became of a finding between two studies, and what a report says became of it.

BioViL-T Appendix C: five findings improve, stay or worsen from one study to the next; a finding
with several directions (a left effusion grows, a right one does not) has no label. Silver labels
come from the words of the report, as Chest ImaGenome's do, and so miss what it does not mention.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cxrflow.phantom.acquisition import FRONTAL_VIEWS, Acquisition
from cxrflow.phantom.course import PROGRESSING, Finding
from cxrflow.phantom.patient import Patient, Study

FINDINGS = tuple(PROGRESSING)
IMPROVING, STABLE, WORSENING = "improving", "stable", "worsening"
DIRECTIONS = {"new": WORSENING, "worsened": WORSENING, "improved": IMPROVING, "stable": STABLE}
#: What reports call the findings. Chest ImaGenome has one attribute for edema and haziness.
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
#: "No relevant change since the prior study": of all that is there.
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
    """The images whose header says that they are frontal."""
    return [image for image in study.images if image.view in FRONTAL_VIEWS]


def study_pairs(patient: Patient) -> Iterator[tuple[Study, Study]]:
    """Studies with the one before; studies at the same instant have none."""
    return ((a, b) for a, b in pairwise(patient.studies) if a.time < b.time)


def good_pairs(patient: Patient) -> Iterator[ImagePair]:
    """Pairs of studies with the first frontal image of each that is not spoilt."""
    for prior_study, study in study_pairs(patient):
        good = [[i for i in frontals(one) if not i.spoilt] for one in (prior_study, study)]
        if all(good):
            yield ImagePair(patient, prior_study, study, good[0][0], good[1][0])


def true_directions(study: Study) -> dict[str, frozenset[str]]:
    """Of each of the five findings the directions it takes from the study before; {} for none."""
    taken = [(f.name, DIRECTIONS[study.changes[f.key]]) for f in study.findings if study.changes]
    taken += [(finding.name, IMPROVING) for finding in study.resolved]
    return {
        name: directions
        for name in FINDINGS
        if (directions := frozenset(way for found, way in taken if found == name))
    }


def true_label(study: Study, finding: str) -> str | None:
    """The one direction of a finding; None where it has none or several."""
    directions = true_directions(study).get(finding, frozenset())
    return next(iter(directions)) if len(directions) == 1 else None


def least_step(prior_study: Study, study: Study, finding: str) -> float:
    """The least change of severity among the findings of that name; inf where none is in both."""
    before = {one.key: one.severity for one in prior_study.findings}
    steps = [
        abs(one.severity - before[one.key])
        for one in study.findings
        if one.name == finding and one.key in before
    ]
    return min(steps, default=float("inf"))


@dataclass(frozen=True)
class Mention:
    """A sentence of a report that says what became of a finding, and of which of them."""

    finding: str
    direction: str
    sentence: str
    of: tuple[Finding, ...]


def mentions(study: Study, sentences: Sequence[str]) -> list[Mention]:
    """What the report of a study says of change, a mention a sentence and finding, in its order.

    Where a sentence names a finding of which the study knows nothing, it means none (``of``).
    """
    made = []
    for sentence in dict.fromkeys(sentences):
        direction = direction_of(sentence)
        if direction is None:
            continue
        everything = re.search(_NOTHING_CHANGED, sentence, re.IGNORECASE) is not None
        for name, pattern in _NAMES.items():
            if everything or re.search(pattern, sentence, re.IGNORECASE):
                made.append(Mention(name, direction, sentence, _meant(study, name, sentence)))
    return made


def direction_of(sentence: str) -> str | None:
    """The direction that the words of a sentence say; None where it speaks of no change."""
    found = (way for way, words in _WORDS if re.search(words, sentence, re.IGNORECASE))
    return next(found, None)


def _meant(study: Study, name: str, sentence: str) -> tuple[Finding, ...]:
    """The findings of that name that a sentence can mean, by the side it names."""
    there = [one for one in (*study.findings, *study.resolved) if one.name == name]
    sides: Mapping[str, str] = {"left": r"\bleft", "right": r"\bright"}
    told = {side for side, word in sides.items() if re.search(word, sentence, re.IGNORECASE)}
    return tuple(one for one in there if not told or one.side in (*told, "both"))
