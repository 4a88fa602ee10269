"""Sentences that say radiological claims and no more (see ``phantom.claims``).

Every sentence is worded by itself, whatever it stands beside in a pair.
"""

import numpy as np

from cxr_hospital.claims import BOTH, RESOLVED, Claim
from cxr_hospital.grammar import pick, write
from cxr_hospital.wording import context, places
from cxr_hospital.wording import radiology_claims as words

_ONE = {"s": "", "ies": "y", "is": "is", "has": "has"}
_MANY = {"s": "s", "ies": "ies", "is": "are", "has": "have"}
OPPOSITE = {"left": "right", "right": "left"}
Claims = tuple[Claim, ...]


def say(claims: Claims, rng: np.random.Generator) -> str:
    """A sentence that says ``claims`` and no more."""
    first = claims[0]
    if len(claims) == 1:
        return _say_present(first, rng) if first.present else _say_absent(first, rng)
    if first.present:
        return _say_exclusion(first, claims[1], rng)
    if len(claims) > 2:
        return write(pick(words.NO_ACUTE_PROCESS, rng), rng).text
    nouns = {slot: words.NOUNS[claim.topic] for slot, claim in zip("xy", claims, strict=True)}
    return write(pick(context.TWO_ABSENT, rng), rng, _ONE | nouns).text


def _say_absent(claim: Claim, rng: np.random.Generator) -> str:
    general = claim.topic not in words.NOUNS
    plain = not (claim.side or claim.change)
    if general or (plain and claim.topic in words.NORMAL and rng.random() < 0.5):
        return write(pick(words.NORMAL[claim.topic], rng), rng).text
    noun = words.NOUNS[claim.topic]
    if claim.change == RESOLVED:
        return write(pick(context.RESOLVED, rng), rng, _ONE | {"bare": noun}).text
    if claim.side:
        article = "a" if claim.topic in words.COUNTABLE else ""
        slots = _ONE | {"x": noun, "side": claim.side, "a": article, "at": _at(claim)}
        templates = words.ABSENT_AT if claim.zone else words.ABSENT_ON_SIDE
        return write(pick(templates, rng), rng, slots).text
    return write(pick(context.ONE_ABSENT, rng), rng, _ONE | {"x": noun}).text


def _at(claim: Claim) -> str:
    if claim.zone:
        return f"in {places.noun(claim.side, claim.zone)}"
    if not claim.side:
        return ""
    return "on both sides" if claim.side == BOTH else f"on the {claim.side}"


def claim_slots(claim: Claim, rng: np.random.Generator) -> dict[str, str]:
    """Slots of templates that say ``claim``.

    ``$np``: noun with degree and place. ``$bare``: with place, without degree. ``$lone``: with
    degree, without place.
    """
    noun = words.NOUNS[claim.topic]
    located = [noun]
    if claim.side and claim.zone:
        located = [
            f"{places.adjective(claim.side, claim.zone)} {noun}",
            f"{noun} in {places.noun(claim.side, claim.zone)}",
        ]
    elif claim.side:
        located = [f"{places.laterality(claim.side)} {noun}"]
    bare = pick(located, rng)
    several = claim.side == BOTH and claim.topic in words.COUNTABLE
    degree = words.GRADES[claim.topic][claim.grade] if claim.grade else ""
    return {
        **(_MANY if several else _ONE),
        "np": f"{degree} {bare}",
        "bare": bare,
        "lone": f"{degree} {noun}",
        "at": _at(claim),
        "where": places.noun(claim.side, claim.zone) if claim.zone else f"the {claim.side} side",
        "other": OPPOSITE.get(claim.side, ""),
        "a": "a" if claim.topic in words.COUNTABLE and not several else "",
        "grade": context.GRADES.get(claim.grade, ""),
        "degly": words.DEGLY.get(claim.grade, ""),
    }


def _say_present(claim: Claim, rng: np.random.Generator) -> str:
    plain = not (claim.side or claim.grade or claim.change)
    general = claim.topic not in words.NOUNS
    if general or (plain and claim.topic in words.ABNORMAL and rng.random() < 0.5):
        return write(pick(words.ABNORMAL[claim.topic], rng), rng).text
    slots = claim_slots(claim, rng)
    if claim.change:
        fitting = [
            text
            for text in context.CHANGED[claim.change]
            if ("$np" in text or "$grade" in text if claim.grade else "$grade" not in text)
        ]
        return write(pick(fitting, rng), rng, slots).text
    if claim.topic == "Cardiomegaly" and rng.random() < 0.4:
        return write(words.ENLARGED, rng, slots).text
    return write(pick(words.PRESENT, rng), rng, slots).text


def _say_exclusion(claim: Claim, absent: Claim, rng: np.random.Generator) -> str:
    """A finding at its place alone, or a finding and not the one that was thought of."""
    templates: tuple[str, ...] = words.RATHER_THAN
    if absent.topic == claim.topic:
        templates = words.CONFINED if claim.zone else words.CONFINED_TO_SIDE
    slots = claim_slots(claim, rng) | {"x": words.NOUNS[absent.topic]}
    return write(pick(templates, rng), rng, slots).text
