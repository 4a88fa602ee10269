"""Sentence pairs of the RadNLI copy: two claims about a chest, worded as in reports.

Each pair stands in the file in both directions. No patient of the MIMIC-CXR copy is among them, so
that no model has trained on their reports. The published make-up: 480 lines a file, each pair in
both directions (Miura et al. 2021), of which BioViL-T section 4 counts 145 entailments and
contradictions in the test file. So 15 % each, and 70 % neutral; how the 145 divide is not
published, nor how often a pair is about a side, a degree or a negation. So the kinds of pairs with
the same labels are equally frequent.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cxr_hospital.claims import CONTRADICTION, ENTAILMENT, NEUTRAL, RESOLVED, Claim
from cxr_hospital.course import Finding
from cxr_hospital.patient import Study, make_patient
from cxr_hospital.radiology_relations import KINDS, Directions, StatedClaim, one_of, relations
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.statements import deniable
from cxr_hospital.wording.radiology_claims import (
    ACUTE,
    CHEST,
    GRADES,
    LUNGS,
    NOUNS,
    PLEURA,
    TOPICS,
    below,
)
from cxr_hospital.wording.radiology_sentences import Claims, say

_STREAM, _ATTEMPTS, _PATIENTS_OF_A_FILE = 91, 2000, 100_000
#: Labels of a pair's two directions -> share of the pairs. A statement and its paraphrase follow
#: from each other, a less specific one follows in one direction only.
DIRECTIONS: dict[Directions, float] = {
    (ENTAILMENT, ENTAILMENT): 0.06,
    (ENTAILMENT, NEUTRAL): 0.18,
    (CONTRADICTION, CONTRADICTION): 0.15,
    (NEUTRAL, NEUTRAL): 0.61,
}
#: Finding -> topic; a lesion's topic is its kind.
_TOPIC_OF = {name: name for name in NOUNS} | {"Lung Lesion": ""}


@dataclass(frozen=True)
class SentencePair:
    """One line of a file; ``premise`` comes first in it."""

    premise: str
    hypothesis: str
    label: str


def claims_of(study: Study) -> list[Claim]:
    """Claims of presence of a study, devices left out."""
    return [_claim(finding, study) for finding in study.findings if finding.name in _TOPIC_OF]


def _claim(finding: Finding, study: Study) -> Claim:
    topic = _TOPIC_OF[finding.name] or finding.kind
    fields = TOPICS.places.get(topic, ())
    return Claim(
        topic,
        side=finding.side if "side" in fields else "",
        zone=finding.zone if "zone" in fields else "",
        grade=finding.grade if topic in GRADES else "",
        change=study.changes.get(finding.key, ""),
    )


def absences_of(study: Study) -> list[Claims]:
    """Claims of absence of a study: single topics, several together, resolved findings."""
    absent = set(deniable(study)) & set(NOUNS)
    if "Lung Lesion" in deniable(study):
        absent |= {"mass", "nodule"}
    general = [
        topic for topic in (LUNGS, PLEURA, CHEST) if all(name in absent for name in below(topic))
    ]
    several: list[tuple[str, ...]] = [*itertools.pairwise(sorted(absent))]
    if absent.issuperset(ACUTE):
        several.append(ACUTE)
    gone = [
        (Claim(finding.name, False, change=RESOLVED),)
        for finding in study.resolved
        if finding.name in absent
    ]
    single = [(name,) for name in [*sorted(absent), *general]]
    return [tuple(Claim(name, False) for name in names) for names in [*single, *several]] + gone


def _kinds(count: int, rng: np.random.Generator) -> list[tuple[Directions, str]]:
    """Directions and kind of ``count`` pairs, in their shares as near as can be, shuffled."""
    bounds = np.round(np.cumsum([0.0, *DIRECTIONS.values()]) * count).astype(int)
    kinds = [
        (directions, tuple(KINDS[directions])[place % len(KINDS[directions])])
        for directions, n in zip(DIRECTIONS, np.diff(bounds), strict=True)
        for place in range(n)
    ]
    return [kinds[int(place)] for place in rng.permutation(len(kinds))]


def _studies(settings: HospitalSettings, file: int) -> Iterator[StatedClaim]:
    """The last studies of patients of this file alone."""
    first = settings.patients + settings.splitter_reports + settings.notes
    for number in range(_PATIENTS_OF_A_FILE):
        index = first + file * _PATIENTS_OF_A_FILE + number
        study = make_patient(settings, index).studies[-1]
        yield StatedClaim(claims_of(study), absences_of(study))


def radiology_pairs(
    settings: HospitalSettings, lines: int, file: int, previous: set[frozenset[str]]
) -> Iterator[SentencePair]:
    """Yield ``lines`` lines of a file, the two directions of a pair one after the other.

    Pairs of earlier files, in ``previous``, do not come again; new ones are added.
    """
    kinds = _kinds(lines // 2, np.random.default_rng([settings.seed, _STREAM, file]))
    studies = _studies(settings, file)
    for number, (directions, name) in enumerate(kinds):
        rng = np.random.default_rng([settings.seed, _STREAM, file, number])
        first, second = _new_pair(directions, name, studies, rng, previous)
        yield SentencePair(first, second, directions[0])
        yield SentencePair(second, first, directions[1])


def _new_pair(
    directions: Directions,
    name: str,
    studies: Iterator[StatedClaim],
    rng: np.random.Generator,
    previous: set[frozenset[str]],
) -> tuple[str, str]:
    kind = KINDS[directions][name]
    for stated, _ in zip(studies, range(_ATTEMPTS), strict=False):
        starts = kind.starts(stated, rng)
        if not starts:
            continue
        statements = kind.pair(one_of(starts, rng), stated, rng)
        if relations(*statements) != directions:
            continue
        first, second = (say(claims, rng) for claims in statements)
        if first.lower() != second.lower() and frozenset((first, second)) not in previous:
            previous.add(frozenset((first, second)))
            return first, second
    raise ValueError(f"no new {name} of {directions} in {_ATTEMPTS} studies; expected fewer pairs")
