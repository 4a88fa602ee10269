"""Cue words of a sentence and how far each reaches.

A cue ("no", "may", "not seen", "enlarged") reaches to the end of its clause. The words are data:
``rules/scope/cues.yaml``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cxr_labels.scope.clauses import SentenceScopes
from cxr_labels.scope.cue_words import CueKind, cue_rules
from cxr_labels.scope.mentions import Mention
from cxr_labels.scope.phrases import Match

# Rules for what an earlier study showed, and verbs without which "on the last film" tells nothing.
EARLIER = frozenset(("earlier study", "in earlier study"))
TREATED = "treated then"
PAST = frozenset(("was", "were", "had"))
# A finding of earlier days that is back, or never went.
RECURRING = frozenset(
    ("recurred", "recurrent", "recurs", "recurring", "again", "still", "persistent", "present")
)
# Behind "was thought to be": then it is not thought today.
BELIEVED = "believed then"
# "Had pneumonia in 2017" is over, unless a word says that it is not, or such findings stay.
OVER = frozenset(("had then", "then"))
NOT_OVER = frozenset(
    ("again", "still", "now", "today", "currently", "since", "from", "compared", "comparison", "no")
    + ("not", "absent", "without", "first", "seen", "noted", "described", "identified", "known")
    + ("healing", "healed")
)
TIMES = frozenset(
    ("ago", "last", "previously", "before", "twice", "once", "childhood", "child", "past")
)
GREATER = frozenset(("more", "less", "greater", "bigger", "denser", "fewer"))
LASTING_FINDINGS = frozenset(("Support Devices", "Other finding", "Pleural Other"))
FORMER, SEEN_THEN = "former", "seen then"
RULES_OF_THEN = OVER | {FORMER, SEEN_THEN}
PASSING_FINDINGS = frozenset(("Pneumonia", "Pneumothorax"))
EARLIER_TIMES = frozenset(
    ("prior", "priors", "previous", "previously", "initially", "earlier", "last", "yesterday")
)


@dataclass(frozen=True, slots=True)
class Cue:
    """A cue at words ``start`` to ``end``; it reaches mentions inside words ``first``–``last``."""

    kind: CueKind
    start: int
    end: int
    first: int
    last: int


def _consumed(matches: Sequence[Match[CueKind]]) -> list[Match[CueKind]]:
    """Leftmost longest matches: the words of one cue are not part of another.

    States of organs and the cues of findings are separate families: "not enlarged" is a state,
    and its "not" is still a cue. A neutral cue uses its words up for both.
    """
    chosen: list[Match[CueKind]] = []
    reach = {"state": 0, "steady": 0, "cue": 0}
    # At equal length a normal organ ("not increased") and "neutral" first, then uncertainty.
    order = {"state negative": -1, "neutral": 0, "uncertain_first": 1}
    for match in sorted(matches, key=lambda m: (m.start, -m.end, order.get(m.payload.effect, 2))):
        family = "state" if match.payload.effect.startswith("state") else "cue"
        # "No change in heart size" is a steady heart.
        steady = match.payload.effect == "state steady"
        if match.start < reach["steady" if steady else family]:
            # One phrase may reach both ways ("resolved"): same words, same effect.
            last = chosen[-1]
            if (match.start, match.end, match.payload.effect) == (
                last.start,
                last.end,
                last.payload.effect,
            ):
                chosen.append(match)
            continue
        reach[family] = match.end
        if family == "state":
            reach["steady"] = match.end
            # The "not" of "not normal", "no more than borderline" denies nothing else.
            if match.payload.effect in ("state positive", "state uncertain"):
                reach["cue"] = match.end
        if match.payload.effect == "neutral":
            reach["state"] = max(reach["state"], match.end)
        chosen.append(match)
    return chosen


def _is_over(
    rule: str,
    words: Sequence[str],
    start: int,
    mentions: Sequence[Mention],
    matches: Sequence[Match[CueKind]],
) -> bool:
    """True if what a cue of earlier days reaches is not said to last."""
    rules, observations = cue_rules(), {mention.observation for mention in mentions}
    rest = {*words[:start], *words[start + 1 :]}  # without the "has" of "has had"
    if not (rules.lasting | GREATER | RECURRING).isdisjoint(rest):
        return False
    if rule == SEEN_THEN:
        return not PAST.isdisjoint(words[:start]) and rules.verbs - PAST <= rules.verbs - {*words}
    if not NOT_OVER.isdisjoint(words):
        return False
    if rule == FORMER:
        return observations <= PASSING_FINDINGS and rules.verbs.isdisjoint(words)
    timed = not TIMES.isdisjoint(words) or any(m.payload.rule == "then" for m in matches)
    return timed and LASTING_FINDINGS.isdisjoint(observations)


def find_cues(words: Sequence[str], mentions: Sequence[Mention]) -> list[Cue]:
    """All cues of a sentence with their scopes."""
    matches = cue_rules().cues.matches(words)
    if EARLIER_TIMES.isdisjoint(words):
        matches = [match for match in matches if match.payload.rule != BELIEVED]
    cue_matches = [match for match in matches if match.payload.effect != "aside"]
    if not cue_matches:
        return []
    consumed = _consumed(cue_matches)
    asides = [match.start for match in matches if match.payload.effect == "aside"]
    sentence = SentenceScopes(words, consumed, asides, mentions)
    lasts = not cue_rules().lasting.isdisjoint(words)
    cues, unchanged = [], (0, 0)
    for match in consumed:
        kind, start, end = match.payload, match.start, match.end
        if kind.effect == "neutral" and words[end : end + 1] == ["in"]:
            unchanged = sentence.clause(end)
        if kind.effect in ("neutral", "break"):
            continue
        # "The prior film showed edema, which persists"
        if kind.rule in EARLIER and lasts:
            continue
        # "Effusion, treated last month, has recurred"
        if kind.rule == TREATED and (lasts or not RECURRING.isdisjoint(words)):
            continue
        if kind.rule == "in earlier study" and PAST.isdisjoint(words[end:]):
            continue
        if kind.rule in RULES_OF_THEN and not _is_over(kind.rule, words, start, mentions, matches):
            continue
        # "No change in A or B": both are there.
        if kind.effect == "between" and unchanged[0] <= start < unchanged[1]:
            continue
        if kind.effect in ("between", "alternatives"):
            cues.append(Cue(kind, start, end, *sentence.around(start, end, kind)))
            continue
        if kind.reach in ("forward", "both"):
            last = sentence.forward(start, end, kind.words, kind)
            cues.append(Cue(kind, start, end, end, last))
        following = words[end] if end < len(words) else "."
        at_end = (kind.reach == "back from end" and end == len(words)) or (
            kind.reach == "back if last" and not following.isalnum()
        )
        if kind.reach in ("backward", "both") or at_end:
            first = sentence.backward(start, end, kind)
            cues.append(Cue(kind, start, end, first, start))
    return cues
