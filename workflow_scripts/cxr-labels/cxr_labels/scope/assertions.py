"""Assertions of a sentence about its mentions: the ``scope`` engine.

The three stages of the CheXpert labeller – uncertainty that outranks negation ("cannot exclude"),
negation, then uncertainty – decided by cue words and how far they reach, instead of by paths in a
parse tree. An organ ("heart size") needs a state besides: enlarged, normal, borderline, unchanged.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cxr_labels.observations import NEGATIVE, POSITIVE, UNCERTAIN
from cxr_labels.scope.cues import Cue, find_cues
from cxr_labels.scope.mentions import Mention

# Effects on an organ's state ("may be enlarged") that hold for the organ, too.
OF_STATES = ("uncertain_first", "negative", "uncertain")

# What is denied today is denied, whatever was thought of it before.
OF_EARLIER_DAYS = frozenset(("earlier", "believed then", "had then", "then"))
DENIED_TODAY = frozenset(("not seen", "has resolved", "history of"))

LABEL_ENDS = frozenset((":", "-"))


@dataclass(frozen=True, slots=True)
class Assertion:
    """A mention's value (1, 0, -1), the rule that gave it, and the rule's words."""

    mention: Mention
    value: int
    rule: str
    cue: tuple[int, int] | None


def _alternatives(cue: Cue, mentions: Sequence[Mention]) -> list[Mention]:
    """The mentions that ``cue`` ("or") joins: the nearest on each side, of two observations."""
    before = [m for m in mentions if cue.first <= m.start and m.end <= cue.start]
    after = [m for m in mentions if cue.end <= m.start and m.end <= cue.last]
    if before and after and len({m.observation for m in (*before, *after)}) > 1:
        return [*before, *after]
    return []


def _decide(mention: Mention, effects: Mapping[str, Cue]) -> Assertion | None:
    """The value of one mention from the first cue of each effect that reaches it."""
    organ = mention.kind == "organ"

    def verdict(effect: str, value: int) -> Assertion:
        cue = effects[effect]
        return Assertion(mention, value, cue.kind.rule, (cue.start, cue.end))

    negative = effects.get("negative")
    if "void" in effects:
        earlier = effects["void"].kind.rule in OF_EARLIER_DAYS
        denied = negative is not None and negative.kind.rule in DENIED_TODAY
        return verdict("negative", NEGATIVE) if earlier and denied and not organ else None
    if "uncertain_first" in effects:
        return verdict("uncertain_first", UNCERTAIN)
    # "Engorgement … within normal limits" is as negative as a normal organ.
    has_state = mention.kind in ("organ", "hint") and "state uncertain" not in effects
    if has_state and "state negative" in effects:
        return verdict("state negative", NEGATIVE)
    # "The heart is not seen" asserts nothing; "an enlarged heart is not seen" does.
    stated = "state positive" in effects or "state uncertain" in effects
    if negative and organ and not stated:
        steady = "state steady" in effects
        negative = None if steady or negative.kind.reach == "backward" else negative
    if negative:
        return verdict("negative", NEGATIVE)
    if not organ or "state positive" in effects:
        if "uncertain" in effects:
            return verdict("uncertain", UNCERTAIN)
        if "alternatives" in effects:
            return verdict("alternatives", UNCERTAIN)
    if not organ:
        hint = mention.kind == "hint"
        return Assertion(mention, *((UNCERTAIN, "hint") if hint else (POSITIVE, "mention")), None)
    for state, value in (("uncertain", UNCERTAIN), ("positive", POSITIVE), ("steady", UNCERTAIN)):
        if f"state {state}" in effects:
            return verdict(f"state {state}", value)
    return None


def assess(words: Sequence[str], mentions: Sequence[Mention]) -> list[Assertion]:
    """Return what the sentence asserts of each mention; an organ without a state has none."""
    cues = find_cues(words, mentions)
    effects: list[dict[str, Cue]] = [{} for _ in mentions]
    starts = [mention.start for mention in mentions]
    # "The heart may be enlarged": a cue that reaches the state's word counts for the organ, too.
    enlarged = sorted({c.start for c in cues if c.kind.effect == "state positive"})
    on_state: dict[int, dict[str, Cue]] = {start: {} for start in enlarged}
    for cue in cues:
        effect = cue.kind.effect
        # Mentions come by place: only those inside the scope are looked at.
        near = range(bisect_left(starts, cue.first), bisect_left(starts, cue.last))
        if effect == "between":
            alternatives = _alternatives(cue, [mentions[i] for i in near])
            reached_mentions = [i for i in near if mentions[i] in alternatives]
            effect = "alternatives"
        else:
            reached_mentions = [i for i in near if mentions[i].end <= cue.last]
        for i in reached_mentions:
            effects[i].setdefault(effect, cue)
        if effect in OF_STATES:
            for at in enlarged[bisect_left(enlarged, cue.first) : bisect_left(enlarged, cue.last)]:
                on_state[at].setdefault(effect, cue)
    for mention, effects_of_mention in zip(mentions, effects, strict=True):
        if mention.kind == "organ" and "state positive" in effects_of_mention:
            for effect, cue in on_state[effects_of_mention["state positive"].start].items():
                effects_of_mention.setdefault(effect, cue)
    decided = (_decide(m, e) for m, e in zip(mentions, effects, strict=True))
    assertions = [assertion for assertion in decided if assertion is not None]
    return [a for a in assertions if not _is_label(words, a, assertions)]


def _is_label(words: Sequence[str], assertion: Assertion, others: Sequence[Assertion]) -> bool:
    """True for a label that its own statement names again: "Pneumothorax: no pneumothorax"."""
    mention = assertion.mention
    if assertion.cue or "".join(words[mention.end : mention.end + 1]) not in LABEL_ENDS:
        return False
    return any(
        o.mention.observation == mention.observation and o.mention.start > mention.end
        for o in others
    )
