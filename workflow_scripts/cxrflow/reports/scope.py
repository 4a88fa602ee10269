"""What a sentence asserts of each mention: the ``scope`` engine.

The three stages of the CheXpert labeller – uncertainty that outranks negation ("cannot exclude"),
negation, then uncertainty – decided by cue words and how far they reach, instead of by paths in a
parse tree. A cue reaches to the end of its clause: clauses end at ``;``, ``:``, "but" and the
like, and where a second verb starts a new statement. The words are data: ``rules/scope.yaml``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cxrflow.reports.mentions import Mention, load_rules
from cxrflow.reports.phrases import Match, PhraseTree

POSITIVE, NEGATIVE, UNCERTAIN = 1, 0, -1

HARD_MARKS = frozenset(";:()[]!")
SOFT = frozenset((",", "and", "with"))
STAGES = (("uncertain_first", UNCERTAIN), ("negative", NEGATIVE), ("uncertain", UNCERTAIN))


@dataclass(frozen=True, slots=True)
class CueKind:
    """What a cue does: its rule's name, effect (a stage, state or "neutral"), reach, limit."""

    rule: str
    effect: str
    reach: str
    words: int


@dataclass(frozen=True, slots=True)
class Cue:
    """A cue at words ``start`` to ``end``; it reaches mentions inside words ``first``–``last``."""

    kind: CueKind
    start: int
    end: int
    first: int
    last: int

    def reaches(self, mention: Mention) -> bool:
        """Whether the mention lies in the cue's scope."""
        return self.first <= mention.start and mention.end <= self.last


@dataclass(frozen=True, slots=True)
class Assertion:
    """A mention's value (1, 0, -1), the rule that gave it, and the rule's words."""

    mention: Mention
    value: int
    rule: str
    cue: tuple[int, int] | None


@cache
def _rules() -> tuple[PhraseTree[CueKind], frozenset[str], frozenset[str], int]:
    rules = load_rules("scope")
    phrases: list[tuple[str, CueKind]] = []
    for cue in rules["cues"]:
        kind = CueKind(cue["rule"], cue["effect"], cue.get("reach", ""), cue.get("words", 1000))
        phrases += [(phrase, kind) for phrase in cue["phrases"]]
    for state, words in rules["states"].items():
        kind = CueKind(f"organ {state}", f"state {state}", "both", 1000)
        phrases += [(phrase, kind) for phrase in words]
    between = CueKind("or", "between", "both", rules["between"]["words"])
    phrases += [(phrase, between) for phrase in rules["between"]["phrases"]]
    end = CueKind("break", "break", "", 0)
    phrases += [(phrase, end) for phrase in rules["breaks"]]
    return (
        PhraseTree(phrases),
        frozenset(rules["verbs"]),
        frozenset(rules["starters"]),
        between.words,
    )


def _consumed(matches: Sequence[Match[CueKind]]) -> list[Match[CueKind]]:
    """Leftmost longest matches: the words of one cue are not part of another.

    States of organs and the cues of findings are separate families: "not enlarged" is a state,
    and its "not" is still a cue. A neutral cue uses its words up for both.
    """
    kept: list[Match[CueKind]] = []
    reach = {"state": 0, "cue": 0}
    # At equal length "neutral" first, then uncertainty before negation.
    order = {"neutral": 0, "uncertain_first": 1}
    for match in sorted(matches, key=lambda m: (m.start, -m.end, order.get(m.payload.effect, 2))):
        family = "state" if match.payload.effect.startswith("state") else "cue"
        if match.start < reach[family]:
            # One phrase may reach both ways ("resolved"): same words, same effect.
            last = kept[-1]
            if (match.start, match.end, match.payload.effect) == (
                last.start,
                last.end,
                last.payload.effect,
            ):
                kept.append(match)
            continue
        reach[family] = match.end
        if match.payload.effect == "neutral":
            reach["state"] = max(reach["state"], match.end)
        kept.append(match)
    return kept


def clause_starts(words: Sequence[str], breaks: Sequence[Match[CueKind]]) -> list[int]:
    """Where clauses start: after hard marks and break words, and before a second statement.

    Commas and "and" cut a clause into pieces. A piece with a verb starts a new clause when the
    clause has a verb already; pieces joined to it by "and" alone go with it ("…, lungs and
    pleura are clear"), unless they hold the earlier verb.
    """
    _, verbs, _, _ = _rules()
    hard = {0}
    for i, word in enumerate(words):
        if word in HARD_MARKS or word == "-":
            hard.add(i + 1)
    for match in breaks:
        hard.add(match.start)
    starts = set(hard)
    has_verb = False
    pieces: list[tuple[int, bool]] = []  # start of each piece since the last verb, after a comma?
    for i, word in enumerate(words):
        if i in hard:
            has_verb, pieces = False, []
        if word == "," or word == "and":
            after_comma = word == "," or (i > 0 and words[i - 1] == ",")
            pieces.append((i, after_comma))
        elif word in verbs:
            if has_verb and pieces:
                cut = next((p for p, comma in reversed(pieces) if comma), pieces[0][0])
                starts.add(cut)
            has_verb, pieces = True, []
    return sorted(s for s in starts if s < len(words)) or [0]


class _Sentence:
    """The marks of a sentence that scopes stop at, each found once, so scopes cost O(1) to O(n)."""

    def __init__(self, words: Sequence[str], matches: Sequence[Match[CueKind]]):
        _, self.verbs, starters, _ = _rules()
        self.words = words
        self.starts = clause_starts(words, [m for m in matches if m.payload.effect == "break"])
        self.states = sorted({m.start for m in matches if m.payload.effect.startswith("state")})
        n = len(words)
        # The next "or" inside the clause: a list that ends in "or" goes on past its commas.
        clause_end = set(self.starts[1:]) | {n}
        self.stops: list[int] = []
        next_or = -1
        stops = []
        for i in range(n - 1, -1, -1):
            if i + 1 in clause_end:
                next_or = -1
            word = words[i]
            if word in ("or", "nor"):
                next_or = i
            following = words[i + 1] if i + 1 < n else ""
            begins = following in starters
            if (word == "with" and (i == 0 or words[i - 1] not in ("associated", "consistent"))) or (
                word in (",", "and")
                and begins
                and (next_or < 0 or following in ("there", "the", "stable", "unchanged"))
            ):
                stops.append(i)
        self.stops = stops[::-1]

    def clause(self, position: int) -> tuple[int, int]:
        i = bisect_right(self.starts, position)
        return self.starts[i - 1], self.starts[i] if i < len(self.starts) else len(self.words)

    def forward(self, end: int, limit: int, state: bool) -> int:
        """Where a scope that begins at ``end`` stops."""
        if end >= len(self.words):
            return end
        last = min(self.clause(max(end - 1, 0))[1], end + limit)
        marks = (self.stops, self.states) if state else (self.stops,)
        for places in marks:
            i = bisect_right(places, end - 1)
            if i < len(places):
                last = min(last, places[i])
        return last

    def backward(self, start: int, end: int, limit: int, state: bool) -> int:
        """Where a scope that runs back from the cue at ``start`` begins.

        With a verb the subject may be a list ("A, B and C are not seen"); without one the cue
        belongs to the piece between commas.
        """
        first = max(self.clause(start)[0], start - limit)
        has_verb = any(self.words[i] in self.verbs for i in range(max(start - 3, first), end))
        if state:
            i = bisect_right(self.states, start - 1) - 1
            if i >= 0:
                first = max(first, self.states[i] + 1)
        if not has_verb:
            low = max(first, start - 40)
            for i in range(start - 1, low - 1, -1):
                if self.words[i] in SOFT and self.words[i] != "and":
                    return i + 1
            return low
        return first


def find_cues(words: Sequence[str]) -> list[Cue]:
    """All cues of a sentence with their scopes."""
    tree, _, _, _ = _rules()
    matches = tree.matches(words)
    if not matches:
        return []
    kept = _consumed(matches)
    sentence = _Sentence(words, kept)
    cues = []
    for match in kept:
        kind = match.payload
        if kind.effect in ("neutral", "break"):
            continue
        state = kind.effect.startswith("state")
        if kind.effect == "between":
            first, last = sentence.clause(match.start)
            first, last = max(first, match.start - kind.words), min(last, match.end + kind.words)
            cues.append(Cue(kind, match.start, match.end, first, last))
            continue
        if kind.reach in ("forward", "both"):
            last = sentence.forward(match.end, kind.words, state)
            cues.append(Cue(kind, match.start, match.end, match.end, last))
        if kind.reach in ("backward", "both"):
            first = sentence.backward(match.start, match.end, kind.words, state)
            cues.append(Cue(kind, match.start, match.end, first, match.start))
    return cues


def _between(cue: Cue, mention: Mention, mentions: Sequence[Mention]) -> bool:
    """Whether ``cue`` ("or") joins ``mention`` with a mention on its other side."""
    before = [m for m in mentions if cue.first <= m.end and m.end <= cue.start]
    after = [m for m in mentions if cue.end <= m.start and m.start <= cue.last]
    return bool(before and after) and (mention in before or mention in after)


def _decide(mention: Mention, cues: Sequence[Cue], mentions: Sequence[Mention]) -> Assertion | None:
    reaching = [
        c for c in cues if (c.reaches(mention) if c.kind.effect != "between" else True)
    ]
    organ = mention.kind == "organ"
    effects: dict[str, Cue] = {}
    for cue in reaching:
        if cue.kind.effect != "between":
            effects.setdefault(cue.kind.effect, cue)
        elif "between" not in effects and _between(cue, mention, mentions):
            effects["between"] = cue

    def verdict(effect: str, value: int) -> Assertion:
        cue = effects[effect]
        return Assertion(mention, value, cue.kind.rule, (cue.start, cue.end))

    if "uncertain_first" in effects:
        return verdict("uncertain_first", UNCERTAIN)
    if organ and "state negative" in effects and "state uncertain" not in effects:
        return verdict("state negative", NEGATIVE)
    if "negative" in effects and not (organ and "state steady" in effects):
        return verdict("negative", NEGATIVE)
    for effect in ("uncertain", "between"):
        if effect in effects and (not organ or "state positive" in effects):
            return verdict(effect, UNCERTAIN)
    if not organ:
        if mention.kind == "hint":
            return Assertion(mention, UNCERTAIN, "hint", None)
        return Assertion(mention, POSITIVE, "mention", None)
    for state, value in (("uncertain", UNCERTAIN), ("positive", POSITIVE), ("steady", UNCERTAIN)):
        if f"state {state}" in effects:
            return verdict(f"state {state}", value)
    return None


def assess(words: Sequence[str], mentions: Sequence[Mention]) -> list[Assertion]:
    """What the sentence asserts of each mention; an organ without a state gives nothing."""
    cues = find_cues(words)
    decided = (_decide(mention, cues, mentions) for mention in mentions)
    return [assertion for assertion in decided if assertion is not None]
