"""Cue words of a sentence and how far each reaches.

A cue ("no", "may", "not seen", "enlarged") reaches to the end of its clause: clauses end at ``;``,
``:``, "but" and the like, and where a second verb starts a new statement. The words are data:
``rules/scope/cues.yaml``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cxrflow.reports.labels.scope.mentions import load_rules
from cxrflow.reports.labels.scope.phrases import Match, PhraseTree

HARD_MARKS = frozenset(";()[]!")
# "Heart size:" announces what is said of it: so few words before a colon go with what follows.
LONGEST_TOPIC = 6
PIECE_MARKS = frozenset((",", "with"))
# A scope without a limit of its own ends at this many words.
FAR = 200


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


@dataclass(frozen=True)
class _Rules:
    """The content of ``rules/scope/cues.yaml``."""

    cues: PhraseTree[CueKind]
    verbs: frozenset[str]
    starters: frozenset[str]
    always_starters: frozenset[str]
    joined_by_with: frozenset[str]
    apart: frozenset[str]


@cache
def _rules() -> _Rules:
    rules = load_rules("cues")
    phrases: list[tuple[str, CueKind]] = []
    for cue in rules["cues"]:
        kind = CueKind(cue["rule"], cue["effect"], cue.get("reach", ""), cue.get("words", FAR))
        phrases += [(phrase, kind) for phrase in cue["phrases"]]
    for state, words in rules["states"].items():
        kind = CueKind(f"organ {state}", f"state {state}", "both", FAR)
        phrases += [(phrase, kind) for phrase in words]
    between = CueKind("or", "between", "both", rules["between"]["words"])
    phrases += [(phrase, between) for phrase in rules["between"]["phrases"]]
    end = CueKind("break", "break", "", 0)
    phrases += [(phrase, end) for phrase in rules["breaks"]]
    names = ("verbs", "starters", "always_starters", "joined_by_with", "apart")
    return _Rules(PhraseTree(phrases), *(frozenset(rules[name]) for name in names))


def knows(word: str) -> bool:
    """Whether the word is part of a cue."""
    return bool(_rules().cues.atoms(word))


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


def _ends_sentence(words: Sequence[str], i: int) -> bool:
    """Whether the stop at ``i`` ends a sentence; not after "vs", initials and list numbers."""
    before = words[i - 1] if i else ""
    return len(before) > 2 and before.isalpha()


def clause_starts(words: Sequence[str], breaks: Sequence[Match[CueKind]]) -> list[int]:
    """Where clauses start: after hard marks and break words, and before a second statement.

    Commas and "and" cut a clause into pieces. A piece with a verb starts a new clause when the
    clause has a verb already; pieces joined to it by "and" alone go with it ("…, lungs and
    pleura are clear"), unless they hold the earlier verb.
    """
    verbs = _rules().verbs
    hard, last = {0}, 0
    for i, word in enumerate(words):
        ends = word in HARD_MARKS or word == "-" or (word == "." and _ends_sentence(words, i))
        if word == ":":
            ends = i - last > LONGEST_TOPIC or not verbs.isdisjoint(words[last:i])
        if ends:
            last = i + 1
            hard.add(last)
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
        rules = _rules()
        self.verbs, starters = rules.verbs, rules.starters
        always, joined_by_with = rules.always_starters, rules.joined_by_with
        self.words = words
        self.starts = clause_starts(words, [m for m in matches if m.payload.effect == "break"])
        self.states = sorted({m.start for m in matches if m.payload.effect.startswith("state")})
        n = len(words)
        # The next "or" inside the clause: a list that ends in "or" goes on past its commas.
        clause_end = set(self.starts[1:]) | {n}
        next_or = -1
        stops = []
        for i in range(n - 1, -1, -1):
            if i + 1 in clause_end:
                next_or = -1
            word = words[i]
            if word in ("or", "nor"):
                next_or = i
            following = words[i + 1] if i + 1 < n else ""
            if word == "with":
                stop = i == 0 or words[i - 1] not in joined_by_with
            else:
                in_list = next_or >= 0 and following not in always
                stop = word in (",", "and") and following in starters and not in_list
            if stop:
                stops.append(i)
        self.stops = stops[::-1]

    def clause(self, position: int) -> tuple[int, int]:
        i = bisect_right(self.starts, position)
        return self.starts[i - 1], self.starts[i] if i < len(self.starts) else len(self.words)

    def around(self, start: int, end: int, limit: int) -> tuple[int, int]:
        """The words that alternatives on both sides of the cue ("or") may stand in."""
        first, last = self.clause(start)
        first, last = max(first, start - limit), min(last, end + limit)
        apart = _rules().apart
        first = next(
            (i + 1 for i in range(start - 1, first - 1, -1) if self.words[i] in apart), first
        )
        last = next((i for i in range(end, last) if self.words[i] in apart), last)
        return first, last

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
            for i in range(start - 1, first - 1, -1):
                if self.words[i] in PIECE_MARKS:
                    return i + 1
        return first


def find_cues(words: Sequence[str]) -> list[Cue]:
    """All cues of a sentence with their scopes."""
    matches = _rules().cues.matches(words)
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
            first, last = sentence.around(match.start, match.end, kind.words)
            cues.append(Cue(kind, match.start, match.end, first, last))
            continue
        if kind.reach in ("forward", "both"):
            last = sentence.forward(match.end, kind.words, state)
            cues.append(Cue(kind, match.start, match.end, match.end, last))
        if kind.reach in ("backward", "both"):
            first = sentence.backward(match.start, match.end, kind.words, state)
            cues.append(Cue(kind, match.start, match.end, first, match.start))
    return cues
