"""Sentence pairs of the MedNLI copy: a sentence of a note and three sentences about it.

As in the published set, every premise has one hypothesis of each label, and pairs stand in one
direction only. Labels come from the claims (``phantom.claims``), never from the words.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from cxr_hospital.claims import BOTH, ENTAILMENT, LABELS, NEUTRAL, RESOLVED, Claim
from cxr_hospital.grammar import pick, write
from cxr_hospital.literature import drug
from cxr_hospital.radiology_pairs import SentencePair
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording import clinical_claims as words

_STREAM = 92
_ATTEMPTS = 200
_CHANGES = ("improved", "worsened", "stable", "new")
_OTHER_CHANGE = {
    "improved": "worsened",
    "worsened": "improved",
    "stable": "worsened",
    "new": "stable",
}
_OTHER_GRADE = {"mild": "severe", "moderate": "mild", "severe": "mild"}

Claims = tuple[Claim, ...]


def draw_premise(rng: np.random.Generator) -> Claims:
    """One claim about an invented patient, or two of which the second is an absence."""
    first = _draw_claim(rng, symptom=rng.random() < 0.65)
    plain = replace(first, change="")
    if first.topic in words.CONDITIONS or rng.random() < 0.65 or first != plain:
        return (first,)
    unrelated = [other for other in words.SYMPTOMS if not _shares_parent(other, first.topic)]
    second = Claim(pick(unrelated, rng), False)
    return (replace(first, side="", grade="") if not first.present else first, second)


def _draw_claim(rng: np.random.Generator, symptom: bool) -> Claim:
    topic = pick([*words.SYMPTOMS, *words.SIDED] if symptom else list(words.CONDITIONS), rng)
    if rng.random() < 0.42:
        gone = symptom and rng.random() < 0.25
        return Claim(topic, False, change=RESOLVED if gone else "")
    graded = topic in words.GRADED and rng.random() < 0.5
    return Claim(
        topic,
        side=pick(("left", "right", BOTH), rng) if topic in words.SIDED else "",
        grade=pick(list(words.GRADES), rng) if graded else "",
        change=pick(_CHANGES, rng) if symptom and rng.random() < 0.35 else "",
    )


def _shares_parent(a: str, b: str) -> bool:
    parents = words.TOPICS.parents
    return a == b or parents.get(a, a) == parents.get(b, b)


# --- hypotheses ---------------------------------------------------------------------------------


def hypothesis(claims: Claims, label: str, rng: np.random.Generator) -> Claim:
    """Draw a claim whose relation to ``claims`` is ``label``, nearly always."""
    claim = claims[int(rng.integers(len(claims)))]
    if label == NEUTRAL:
        return _open_question(claims, claim, rng)
    if label == ENTAILMENT:
        return _weaker(claim, rng)
    return _opposed(claim, rng)


def _weaker(claim: Claim, rng: np.random.Generator) -> Claim:
    options = [claim, replace(claim, change="")]
    if claim.present:
        options.append(replace(claim, grade="", change=""))
        if claim.side == BOTH:
            options.append(replace(claim, side=pick(("left", "right"), rng), change=""))
        if claim.side:
            options.append(replace(claim, side="", grade="", change=""))
        if claim.topic in words.TOPICS.parents:
            options.append(Claim(words.TOPICS.parents[claim.topic]))
    return options[int(rng.integers(len(options)))]


def _opposed(claim: Claim, rng: np.random.Generator) -> Claim:
    if not claim.present:
        side = pick(("left", "right", ""), rng) if claim.topic in words.SIDED else ""
        grade = pick(("", *words.GRADES), rng) if claim.topic in words.GRADED else ""
        return Claim(claim.topic, side=side, grade=grade)
    options = [Claim(claim.topic, False)] * 3
    if claim.side:
        side = pick(("left", "right"), rng) if claim.side == BOTH else claim.side
        options.append(Claim(claim.topic, False, side=side))
    if claim.change:
        options += [replace(claim, change=_OTHER_CHANGE[claim.change], grade="")] * 2
        options.append(Claim(claim.topic, False, change=RESOLVED))
    if claim.grade:
        options.append(replace(claim, grade=_OTHER_GRADE[claim.grade], change=""))
    if claim.topic in words.TOPICS.parents:
        options.append(Claim(words.TOPICS.parents[claim.topic], False))
    return options[int(rng.integers(len(options)))]


def _open_question(claims: Claims, claim: Claim, rng: np.random.Generator) -> Claim:
    """Another topic, the other side, or a detail that is not stated."""
    chance = rng.random()
    if claim.present and chance < 0.3:
        if claim.side in ("left", "right") and rng.random() < 0.6:
            side = "right" if claim.side == "left" else "left"
            return Claim(claim.topic, side=side, present=rng.random() < 0.6)
        if claim.topic in words.GRADED and not claim.grade:
            return replace(claim, grade=pick(list(words.GRADES), rng), change="")
        if claim.topic not in words.CONDITIONS and not claim.change:
            return replace(claim, change=pick(_CHANGES[:3], rng))
    candidate = _draw_claim(rng, symptom=claim.topic not in words.CONDITIONS)
    while any(_shares_parent(candidate.topic, stated.topic) for stated in claims):
        candidate = _draw_claim(rng, symptom=claim.topic not in words.CONDITIONS)
    return candidate


# --- words --------------------------------------------------------------------------------------


def _slots(claim: Claim, rng: np.random.Generator) -> dict[str, str]:
    side = "bilateral" if claim.side == BOTH else claim.side
    bare = f"{side} {words.NOUNS[claim.topic]}"
    day = datetime(2101, 1, 1) + timedelta(days=int(rng.integers(99 * 365)))
    return {
        "bare": bare if claim.present else words.NOUNS[claim.topic],
        "np": f"{words.GRADES.get(claim.grade, '')} {bare}",
        "side": claim.side,
        "drug": drug(rng),
        "date": f"{day.year}-{day.month}-{day.day}",
        "age": str(int(rng.integers(19, 90))),
        "person": pick(("man", "woman", "male", "female"), rng),
    }


def say_premise(claims: Claims, rng: np.random.Generator) -> str:
    """A sentence of a note that makes these claims."""
    first = claims[0]
    slots = _slots(first, rng)
    options: tuple[str, ...]
    if len(claims) == 2:
        slots |= {"one": slots["np"], "two": words.NOUNS[claims[1].topic]}
        options = words.TELLS_AND_DENIES if first.present else words.DENIES_BOTH
    elif first.change == RESOLVED:
        options = words.TELLS_RESOLVED
    elif not first.present:
        options = words.DENIES_CONDITION if first.topic in words.CONDITIONS else words.DENIES
    elif first.change:
        options = words.TELLS_CHANGE[first.change]
    else:
        options = words.TELLS_CONDITION if first.topic in words.CONDITIONS else words.TELLS
    return write(pick(options, rng), rng, slots).text


def say_hypothesis(claim: Claim, rng: np.random.Generator) -> str:
    """A plain sentence that makes this claim."""
    condition = claim.topic in words.CONDITIONS
    if claim.change == RESOLVED:
        options: tuple[str, ...] = words.ASKS_RESOLVED
    elif not claim.present and claim.side:
        options = words.DENIES_SIDE
    elif not claim.present:
        options = words.ASKS_ABSENT_CONDITION if condition else words.ASKS_ABSENT
    elif claim.change:
        options = words.ASKS_CHANGE[claim.change]
    else:
        options = words.ASKS_CONDITION if condition else words.ASKS
    return write(pick(options, rng), rng, _slots(claim, rng)).text


# --- pairs --------------------------------------------------------------------------------------


def clinical_pairs(
    settings: HospitalSettings, lines: int, file: int, premises: set[str]
) -> Iterator[SentencePair]:
    """Yield ``lines`` lines of a file: three for each premise, one of each label.

    Premises of earlier files, in ``premises``, do not come again; new ones are added.
    """
    for number in range(lines // len(LABELS)):
        rng = np.random.default_rng([settings.seed, _STREAM, file, number])
        claims, premise = _new_premise(rng, premises)
        for place in rng.permutation(len(LABELS)):
            label = LABELS[int(place)]
            yield SentencePair(premise, _hypothesis_text(claims, premise, label, rng), label)


def _new_premise(rng: np.random.Generator, premises: set[str]) -> tuple[Claims, str]:
    for _ in range(_ATTEMPTS):
        claims = draw_premise(rng)
        premise = say_premise(claims, rng)
        if premise not in premises:
            premises.add(premise)
            return claims, premise
    raise ValueError(f"no new premise in {_ATTEMPTS} attempts; expected fewer mednli_pairs")


def _hypothesis_text(claims: Claims, premise: str, label: str, rng: np.random.Generator) -> str:
    for _ in range(_ATTEMPTS):
        claim = hypothesis(claims, label, rng)
        # A hypothesis is about a degree or about a change, not about both.
        claim = replace(claim, grade="") if claim.change else claim
        if words.TOPICS.relation(claims, (claim,)) == label:
            text = say_hypothesis(claim, rng)
            if text.lower() != premise.lower():
                return text
    raise ValueError(f"no {label} of {claims} in {_ATTEMPTS} attempts")
