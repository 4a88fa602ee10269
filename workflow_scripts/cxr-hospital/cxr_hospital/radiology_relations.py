"""How two statements about a chest can be related: the kinds of pairs in the RadNLI copy.

A kind starts from what is true of a study and gives two statements. The relation of any two is
computed from their claims (``phantom.claims``), so a kind is only a way to draw pairs of a
relation, never the reason for a label.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cxr_hospital.claims import BOTH, CONTRADICTION, ENTAILMENT, NEUTRAL, RESOLVED, Claim
from cxr_hospital.course import ZONES
from cxr_hospital.wording.radiology_claims import ALTERNATIVES, NORMAL, TOPICS, below
from cxr_hospital.wording.radiology_sentences import OPPOSITE, Claims

_OTHER_CHANGES = {
    "improved": ("worsened", "stable", "new"),
    "worsened": ("improved", "stable"),
    "stable": ("new", "worsened", "improved"),
    "new": ("stable", "improved"),
}
_OTHER_GRADE = {"mild": "severe", "moderate": "severe", "severe": "mild"}

Draw = np.random.Generator
Directions = tuple[str, str]  # the labels of a pair and of its other direction
_T = TypeVar("_T")


class StatedClaim(NamedTuple):
    """What is true of a study: its claims of presence, and of absence."""

    present: list[Claim]
    absent: list[Claims]


class PairKind(NamedTuple):
    """``starts``: statements about a study that a pair may start from; ``pair`` makes it of one."""

    starts: Callable[[StatedClaim, Draw], list[Claims]]
    pair: Callable[[Claims, StatedClaim, Draw], tuple[Claims, Claims]]


def one_of(options: Sequence[_T], rng: Draw) -> _T:
    """One of ``options``, all equally often."""
    return options[int(rng.integers(len(options)))]


def relations(first: Claims, second: Claims) -> Directions:
    """The label of the pair, and of its other direction."""
    return TOPICS.relation(first, second), TOPICS.relation(second, first)


def confined(claim: Claim) -> Claims:
    """The claim, and the absence of its topic elsewhere in the chest."""
    zones = [zone for zone in ZONES if claim.zone and zone != claim.zone]
    on_its_side = [Claim(claim.topic, False, side=claim.side, zone=zone) for zone in zones]
    return (claim, Claim(claim.topic, False, side=OPPOSITE[claim.side]), *on_its_side)


# --- starts -------------------------------------------------------------------------------------


def _with(*fields: str) -> Callable[[StatedClaim, Draw], list[Claims]]:
    """Findings with these details; each other detail is stated in half of the cases."""

    def starts(stated: StatedClaim, rng: Draw) -> list[Claims]:
        details = [field for field in ("change", "grade", "zone") if field not in fields]
        unstated: dict[str, Any] = {field: "" for field in details if rng.random() < 0.5}
        return [
            (replace(claim, **unstated),)
            for claim in stated.present
            if all(getattr(claim, field) for field in fields)
        ]

    return starts


def _on_one_side(stated: StatedClaim, rng: Draw) -> list[Claims]:
    """Findings on one side, their zone and change not stated."""
    findings = [claim for (claim,) in _with()(stated, rng) if claim.side in OPPOSITE]
    return [(replace(claim, zone="", change=""),) for claim in findings]


def _in_one_zone(stated: StatedClaim, rng: Draw) -> list[Claims]:
    """Findings in one of a lung's zones, their change not stated."""
    findings = [claim for (claim,) in _with("zone")(stated, rng) if claim.side in OPPOSITE]
    return [(replace(claim, change=""),) for claim in findings if claim.zone in ZONES]


def _in_one_place(stated: StatedClaim, rng: Draw) -> list[Claims]:
    return (_on_one_side if rng.random() < 0.5 else _in_one_zone)(stated, rng)


def _absences(stated: StatedClaim, rng: Draw) -> list[Claims]:
    return stated.absent


def _covering(stated: StatedClaim, rng: Draw) -> list[Claims]:
    """Absences of several topics, together or under one name."""
    return [claims for claims in stated.absent if len(claims) > 1 or below(claims[0].topic)]


def _gone(stated: StatedClaim, rng: Draw) -> list[Claims]:
    return [claims for claims in stated.absent if claims[0].change == RESOLVED]


# --- entailments --------------------------------------------------------------------------------


def _same(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    return first, first


def _same_confinement(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    return (confined(first[0]),) * 2


def _less_detail(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    (claim,) = first
    details = [field for field in ("change", "grade", "zone", "side") if getattr(claim, field)]
    field = one_of(details or ["change"], rng)
    fields = ("zone", "side", "grade", "change") if field == "side" else (field,)
    less: dict[str, Any] = dict.fromkeys(fields, "")
    return first, (replace(claim, **less),)


def _more_general(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    (claim,) = first
    topic = one_of(TOPICS.implied(claim.topic)[1:] or (claim.topic,), rng)
    side, zone = (claim.side, claim.zone) if topic in TOPICS.places else ("", "")
    return first, (Claim(topic, side=side, zone=zone),)


def _particular(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """No process, so no effusion."""
    topics = [claim.topic for claim in first] if len(first) > 1 else below(first[0].topic)
    topic = one_of(topics, rng)
    sided = "side" in TOPICS.places.get(topic, ()) and rng.random() < 0.3
    return first, (Claim(topic, False, side=one_of(("left", "right"), rng) if sided else ""),)


def _elsewhere(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """On the left alone, so not on the right."""
    claims = confined(first[0])
    return claims, (one_of(claims[1:], rng),)


def _absent_now(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    return first, (replace(first[0], change=""),)


# --- contradictions -----------------------------------------------------------------------------


def _denied(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """A finding, and its absence: at its place, anywhere, or with that of another."""
    (claim,) = first
    pairs = [claims for claims in stated.absent if len(claims) == 2]
    options: list[Claims] = [(Claim(claim.topic, False),)]
    if claim.side:
        side = one_of(("left", "right"), rng) if claim.side == BOTH else claim.side
        options.append((Claim(claim.topic, False, side=side),))
    if pairs:
        options.append((Claim(claim.topic, False), one_of(pairs, rng)[0]))
    return first, one_of(options, rng)


def _other_finding(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """A finding, and another in its place; or the normal state of what it is a finding of."""
    (claim,) = first
    if claim.topic in ALTERNATIVES and rng.random() < 0.5:
        topic = one_of([name for name in ALTERNATIVES if name != claim.topic], rng)
        placed = topic in TOPICS.places and claim.topic in TOPICS.places
        side, zone = (claim.side, claim.zone) if placed else ("", "")
        absent = Claim(claim.topic, False, side=side, zone=zone)
        return first, (Claim(topic, side=side, zone=zone), absent)
    normal = [topic for topic in TOPICS.implied(claim.topic) if topic in NORMAL]
    return first, (Claim(one_of(normal, rng), False),)


def _other_side(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """On one side alone, and on the other or on both."""
    (claim,) = first
    side = one_of((OPPOSITE[claim.side], BOTH), rng)
    return confined(claim), (replace(claim, side=side, grade=""),)


def _other_zone(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """In one zone alone, and in another."""
    (claim,) = first
    zone = one_of([zone for zone in ZONES if zone != claim.zone], rng)
    return confined(claim), (replace(claim, zone=zone, grade=""),)


def _other_degree(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    claim = replace(first[0], change="")
    return (claim,), (replace(claim, grade=_OTHER_GRADE[claim.grade]),)


def _other_change(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """A change, and another; or a finding that is still there, and the same one gone."""
    (claim,) = first
    if claim.change != "new" and rng.random() < 0.3:
        return first, (Claim(claim.topic, False, change=RESOLVED),)
    change = one_of(_OTHER_CHANGES[claim.change], rng)
    return first, (replace(claim, change=change, grade=""),)


# --- neutral ------------------------------------------------------------------------------------


def _other_topic(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """Two findings, or two absences."""
    present: list[Claims] = [(claim,) for claim in stated.present]
    return first, one_of(present if first[0].present else stated.absent, rng)


def _other_state(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """A finding, and an absence of something else."""
    return first, one_of(stated.absent, rng)


def _across(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """On one side, and on the other, present or absent."""
    claim = replace(first[0], side=OPPOSITE[first[0].side], grade="")
    return first, (claim if rng.random() < 0.5 else replace(claim, present=False),)


def _two_details(first: Claims, stated: StatedClaim, rng: Draw) -> tuple[Claims, Claims]:
    """A finding with its degree or place, and with its change."""
    (claim,) = first
    return (replace(claim, change=""),), (replace(claim, grade="", side="", zone=""),)


def _statements(stated: StatedClaim, rng: Draw) -> list[Claims]:
    """Findings or absences, in half of the cases each."""
    return _with()(stated, rng) if rng.random() < 0.5 else stated.absent


#: Labels of a pair's two directions -> the kinds of such pairs.
KINDS: Mapping[Directions, Mapping[str, PairKind]] = {
    (ENTAILMENT, ENTAILMENT): {
        "finding": PairKind(_with(), _same),
        "absence": PairKind(_absences, _same),
        "change": PairKind(_with("change"), _same),
        "confinement": PairKind(_in_one_place, _same_confinement),
    },
    (ENTAILMENT, NEUTRAL): {
        "detail": PairKind(_with(), _less_detail),
        "general": PairKind(_with(), _more_general),
        "particular": PairKind(_covering, _particular),
        "elsewhere": PairKind(_in_one_place, _elsewhere),
        "resolution": PairKind(_gone, _absent_now),
    },
    (CONTRADICTION, CONTRADICTION): {
        "negation": PairKind(_with(), _denied),
        "finding": PairKind(_with(), _other_finding),
        "side": PairKind(_on_one_side, _other_side),
        "place": PairKind(_in_one_zone, _other_zone),
        "degree": PairKind(_with("grade"), _other_degree),
        "time": PairKind(_with("change"), _other_change),
    },
    (NEUTRAL, NEUTRAL): {
        "topic": PairKind(_statements, _other_topic),
        "state": PairKind(_with(), _other_state),
        "side": PairKind(_on_one_side, _across),
        "detail": PairKind(_with("side", "change"), _two_details),
    },
}
