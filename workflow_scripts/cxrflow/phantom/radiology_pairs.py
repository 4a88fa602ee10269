"""Sentence pairs of the RadNLI copy: two claims about a chest, worded as in reports.

Each pair stands in the file in both directions. No patient of the MIMIC-CXR copy is among them, so
that no model has trained on their reports. The real test set has few entailments
and contradictions (BioViL-T section 4 counts 145 pairs of the two; the files have 480 lines):
15 % each, and 70 % neutral.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxrflow.phantom.claims import BOTH, CONTRADICTION, ENTAILMENT, NEUTRAL, RESOLVED, Claim
from cxrflow.phantom.course import Finding
from cxrflow.phantom.grammar import pick, write
from cxrflow.phantom.patient import Study, make_patient
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.statements import deniable
from cxrflow.phantom.wording import context, places
from cxrflow.phantom.wording.radiology_claims import (
    ABSENT_ON_SIDE,
    COUNTABLE,
    DEGLY,
    ENLARGED,
    GRADES,
    NOUNS,
    PRESENT,
    TOGETHER,
    TOPICS,
)

_STREAM = 91
#: Labels of a pair's two directions -> share of the pairs. A statement and its paraphrase follow
#: from each other, a less specific one follows in one direction only.
DIRECTIONS = {
    (ENTAILMENT, ENTAILMENT): 0.06,
    (ENTAILMENT, NEUTRAL): 0.18,
    (CONTRADICTION, CONTRADICTION): 0.15,
    (NEUTRAL, NEUTRAL): 0.61,
}
_ATTEMPTS = 200
_ONE = {"s": "", "ies": "y", "is": "is", "has": "has"}
_MANY = {"s": "s", "ies": "ies", "is": "are", "has": "have"}
_OTHER_CHANGE = {"improved": "worsened", "worsened": "improved", "stable": "new", "new": "stable"}
_OTHER_GRADE = {"mild": "severe", "moderate": "severe", "severe": "mild"}
#: Finding -> topic; a lesion's topic is its kind.
_TOPIC_OF = {name: name for name in NOUNS} | {"Lung Lesion": ""}

Claims = tuple[Claim, ...]


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
    single: list[Claims] = [(Claim(name, False),) for name in sorted(absent)]
    two = [frozenset(names) for names in itertools.pairwise(sorted(absent))]
    several = [*two, *(topics for topics in TOGETHER if len(topics) > 1 and topics <= absent)]
    gone = [
        (Claim(finding.name, False, change=RESOLVED),)
        for finding in study.resolved
        if finding.name in absent
    ]
    return single + [denied(topics) for topics in several] + gone


def denied(topics: frozenset[str]) -> Claims:
    """The absence of each of ``topics``."""
    return tuple(Claim(name, False) for name in sorted(topics))


# --- words --------------------------------------------------------------------------------------


def say(claims: Claims, rng: np.random.Generator) -> str:
    """A sentence that says ``claims`` and no more."""
    topics = frozenset(claim.topic for claim in claims)
    first = claims[0]
    plain_absence = not any(claim.present or claim.side or claim.change for claim in claims)
    if plain_absence and topics in TOGETHER and (len(claims) > 1 or rng.random() < 0.5):
        return write(pick(TOGETHER[topics], rng), rng).text
    if len(claims) == 2:
        nouns = {slot: NOUNS[claim.topic] for slot, claim in zip("xy", claims, strict=True)}
        return write(pick(context.TWO_ABSENT, rng), rng, _ONE | nouns).text
    return _say_present(first, rng) if first.present else _say_absent(first, rng)


def _say_absent(claim: Claim, rng: np.random.Generator) -> str:
    noun = NOUNS[claim.topic]
    article = "a" if claim.topic in COUNTABLE else ""
    if claim.change == RESOLVED:
        return write(pick(context.RESOLVED, rng), rng, _ONE | {"bare": noun}).text
    if claim.side:
        slots = _ONE | {"x": noun, "side": claim.side, "a": article}
        return write(pick(ABSENT_ON_SIDE, rng), rng, slots).text
    return write(pick(context.ONE_ABSENT, rng), rng, _ONE | {"x": noun}).text


def claim_slots(claim: Claim, rng: np.random.Generator) -> dict[str, str]:
    """Slots of templates that say ``claim``: ``$np`` with its degree, ``$bare`` without."""
    noun = NOUNS[claim.topic]
    located = [noun]
    if claim.side and claim.zone:
        located = [
            f"{places.adjective(claim.side, claim.zone)} {noun}",
            f"{noun} in {places.noun(claim.side, claim.zone)}",
        ]
    elif claim.side:
        located = [f"{places.laterality(claim.side)} {noun}"]
    bare = pick(located, rng)
    several = claim.side == BOTH and claim.topic in COUNTABLE
    degree = GRADES[claim.topic][claim.grade] if claim.grade else ""
    return {
        **(_MANY if several else _ONE),
        "np": f"{degree} {bare}",
        "bare": bare,
        "a": "a" if claim.topic in COUNTABLE and not several else "",
        "grade": context.GRADES.get(claim.grade, ""),
        "degly": DEGLY.get(claim.grade, ""),
    }


def _say_present(claim: Claim, rng: np.random.Generator) -> str:
    slots = claim_slots(claim, rng)
    if claim.change:
        fitting = [
            text
            for text in context.CHANGED[claim.change]
            if ("$np" in text or "$grade" in text if claim.grade else "$grade" not in text)
        ]
        return write(pick(fitting, rng), rng, slots).text
    if claim.topic == "Cardiomegaly" and rng.random() < 0.4:
        return write(ENLARGED, rng, slots).text
    return write(pick(PRESENT, rng), rng, slots).text


# --- pairs --------------------------------------------------------------------------------------


def weaker(claims: Claims, rng: np.random.Generator) -> Claims:
    """A less specific claim that follows from ``claims``, or ``claims`` where there is none."""
    if len(claims) > 1:
        return (claims[int(rng.integers(len(claims)))],)
    claim = claims[0]
    options = []
    if claim.change:
        options.append(replace(claim, change=""))
    if claim.grade:
        options += [replace(claim, grade=""), replace(claim, grade="", change="")]
    if claim.zone:
        options += [replace(claim, zone=""), replace(claim, zone="", grade="", change="")]
    if claim.side:
        options.append(replace(claim, side="", zone="", grade="", change=""))
    if claim.side == BOTH:
        options.append(replace(claim, side=_side(rng), zone=""))
    if claim.present and claim.topic in TOPICS.parents:
        parent = TOPICS.parents[claim.topic]
        options.append(replace(claim, topic=parent, grade="", change=""))
    return (options[int(rng.integers(len(options)))],) if options else claims


def opposed(claims: Claims, rng: np.random.Generator) -> Claims:
    """A claim that contradicts ``claims``."""
    claim = claims[int(rng.integers(len(claims)))]
    if not claim.present:
        fields = TOPICS.places.get(claim.topic, ())
        side = claim.side or (pick(("left", "right", ""), rng) if "side" in fields else "")
        grade = pick(("", *GRADES.get(claim.topic, ())), rng)
        return (Claim(claim.topic, side=side, grade=grade, change=pick(("", "", "new"), rng)),)
    options: list[Claims] = [(Claim(claim.topic, False),)] * 2
    options.append((Claim(claim.topic, False, change=RESOLVED),))
    options += [denied(topics) for topics in TOGETHER if claim.topic in topics]
    if claim.topic in TOPICS.parents:
        options.append((Claim(TOPICS.parents[claim.topic], False),))
    if claim.side:
        side = _side(rng) if claim.side == BOTH else claim.side
        options.append((Claim(claim.topic, False, side=side),))
    if claim.change:
        options += [(replace(claim, change=_OTHER_CHANGE[claim.change], grade=""),)] * 2
    if claim.grade:
        options.append((replace(claim, grade=_OTHER_GRADE[claim.grade], change=""),))
    return options[int(rng.integers(len(options)))]


def unrelated(first: Claims, second: Claims) -> bool:
    """True without any relation: different topics, or the two sides of the chest."""
    return all(
        not TOPICS.related(a.topic, b.topic) or {a.side, b.side} == {"left", "right"}
        for a in first
        for b in second
    )


def _side(rng: np.random.Generator) -> str:
    return pick(("left", "right"), rng)


def _other_side(claim: Claim, rng: np.random.Generator) -> Claims:
    """The topic on the other side, present or absent: neutral to a claim about one side."""
    side = {"left": "right", "right": "left"}[claim.side]
    return (Claim(claim.topic, present=rng.random() < 0.7, side=side),)


def _partner(
    first: Claims,
    kind: tuple[str, str],
    statements: Sequence[Claims],
    rng: np.random.Generator,
) -> Claims:
    if kind == (ENTAILMENT, ENTAILMENT):
        return first
    if kind == (ENTAILMENT, NEUTRAL):
        return weaker(first, rng)
    if kind == (CONTRADICTION, CONTRADICTION):
        return opposed(first, rng)
    if len(first) == 1 and first[0].side in ("left", "right") and rng.random() < 0.4:
        return _other_side(first[0], rng)
    return statements[int(rng.integers(len(statements)))]


def _directions(count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """The kinds of ``count`` pairs, as near to their shares as whole numbers allow, shuffled."""
    bounds = np.round(np.cumsum([0.0, *DIRECTIONS.values()]) * count).astype(int)
    numbers = np.diff(bounds)
    kinds = [kind for kind, n in zip(DIRECTIONS, numbers, strict=True) for _ in range(n)]
    return [kinds[int(place)] for place in rng.permutation(len(kinds))]


def radiology_pairs(
    settings: HospitalSettings, lines: int, file: int, previous: set[frozenset[str]]
) -> Iterator[SentencePair]:
    """Yield ``lines`` lines of a file, the two directions of a pair one after the other.

    Pairs of earlier files, in ``previous``, do not come again; new ones are added.
    """
    count = lines // 2
    kinds = _directions(count, np.random.default_rng([settings.seed, _STREAM, file]))
    first_patient = settings.patients + settings.splitter_reports + settings.notes + file * count
    for number, kind in enumerate(kinds):
        rng = np.random.default_rng([settings.seed, _STREAM, file, number])
        studies = make_patient(settings, first_patient + number).studies
        first, second = _pair(studies[-1], kind, rng, previous)
        yield SentencePair(first, second, kind[0])
        yield SentencePair(second, first, kind[1])


def _pair(
    study: Study, kind: tuple[str, str], rng: np.random.Generator, previous: set[frozenset[str]]
) -> tuple[str, str]:
    present: list[Claims] = [(claim,) for claim in claims_of(study)]
    absent = absences_of(study)
    # Presences are repeated to be as frequent as absences, of which a chest has far more.
    statements = present * max(1, len(absent) // max(1, len(present))) + absent
    for _ in range(_ATTEMPTS):
        first = statements[int(rng.integers(len(statements)))]
        if len(first) == 1 and first[0].present and rng.random() < 0.3:
            first = weaker(first, rng)
        second = _partner(first, kind, statements, rng)
        if (TOPICS.relation(first, second), TOPICS.relation(second, first)) != kind:
            continue
        if kind == (NEUTRAL, NEUTRAL) and not unrelated(first, second):
            continue
        texts = say(first, rng), say(second, rng)
        if texts[0].lower() != texts[1].lower() and frozenset(texts) not in previous:
            previous.add(frozenset(texts))
            return texts
    raise ValueError(f"no new pair {kind} in {_ATTEMPTS} attempts; expected fewer radnli_pairs")
