"""Cue words of a sentence and how far each reaches.

A cue ("no", "may", "not seen", "enlarged") reaches to the end of its clause: clauses end at ``;``,
``:``, "but" and the like, and where a second verb starts a new statement. The words are data:
``rules/scope/cues.yaml``.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cxrflow.reports.labels.scope.mentions import Mention, load_rules, mention_tree
from cxrflow.reports.labels.scope.phrases import JOINING, Match, PhraseTree

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
    lasting: frozenset[str]
    qualifiers: frozenset[str]
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
    aside = CueKind("aside", "aside", "", 0)
    phrases += [(phrase, aside) for phrase in rules["asides"]]
    lists = ("verbs", "starters", "always_starters", "lasting", "qualifiers")
    words = [frozenset(rules[name]) for name in (*lists, "joined_by_with", "apart")]
    return _Rules(PhraseTree(phrases, _is_plain), *words)


def _is_plain(word: str) -> bool:
    """Whether a gap in a cue ("no … change") may hold the word: it names no finding."""
    return word not in JOINING and not (word != "clear" and mention_tree().atoms(word))


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

    def __init__(
        self,
        words: Sequence[str],
        matches: Sequence[Match[CueKind]],
        asides: Sequence[int],
        mentions: Sequence[Mention],
    ):
        rules = _rules()
        self.verbs, self.words = rules.verbs, words
        self.before_nouns = rules.starters | rules.qualifiers
        self.starts = clause_starts(words, [m for m in matches if m.payload.effect == "break"])
        self.states = sorted({m.start for m in matches if m.payload.effect.startswith("state")})
        self.named = {mention.start: mention.observation for mention in mentions}
        self.stops = sorted({*self._stops(rules), *asides})

    def _or_follows(self) -> list[bool]:
        """Whether an "or" follows inside the clause: such a list goes on past its commas."""
        n = len(self.words)
        ends = {*self.starts[1:], n}
        follows, seen = [False] * n, False
        for i in range(n - 1, -1, -1):
            seen = (seen and i + 1 not in ends) or self.words[i] in ("or", "nor")
            follows[i] = seen
        return follows

    def _stops(self, rules: _Rules) -> list[int]:
        """The commas, "and" and "with" that a scope does not pass.

        After "no A or B" the list is complete: the next comma begins something else.
        """
        words, starts, or_follows = self.words, set(self.starts), self._or_follows()
        stops: list[int] = []
        named = joined = complete = False
        for i, word in enumerate(words):
            if i in starts:
                named = joined = complete = False
            if i in self.named:
                complete, named = complete or joined, True
            if word in ("or", "nor"):
                joined = named
            following = words[i + 1] if i + 1 < len(words) else ""
            if word == "with":
                stop = i == 0 or words[i - 1] not in rules.joined_by_with
            elif word not in (",", "and"):
                continue
            elif following in rules.starters:
                stop = complete or not or_follows[i] or following in rules.always_starters
            else:
                stop = word == "," and not or_follows[i] and (complete or self._asserts(i, rules))
            if stop:
                stops.append(i)
                named = joined = complete = False
        return stops

    def _asserts(self, comma: int, rules: _Rules) -> bool:
        """Whether the piece after a comma says that something is there.

        It names a finding that "remains" or "is worse", or a device after what is none.
        """
        earlier = [name for at, name in self.named.items() if at < comma]
        for i in range(comma + 1, len(self.words)):
            if self.words[i] in (",", "and"):
                return False
            if i in self.named:
                if self.named[i] == "Support Devices":
                    return bool(earlier) and earlier[-1] != "Support Devices"
                rest = itertools.takewhile(lambda w: w not in (",", "and"), self.words[i:])
                return not rules.lasting.isdisjoint(rest)
        return False

    def clause(self, position: int) -> tuple[int, int]:
        i = bisect_right(self.starts, position)
        return self.starts[i - 1], self.starts[i] if i < len(self.starts) else len(self.words)

    def around(self, start: int, end: int, limit: int) -> tuple[int, int]:
        """The words that alternatives on both sides of the cue ("or", "versus") may stand in.

        A comma ends them, but for those of a list ("A, B, or C").
        """
        rules = _rules()
        first, last = self.clause(start)
        first, last = max(first, start - limit), min(last, end + limit)
        in_list, seen = self.words[start - 1] == ",", False
        for i in range(start - 1, first - 1, -1):
            word = self.words[i]
            if word in rules.apart or (seen and (word == "and" or (word == "," and not in_list))):
                first = i + 1
                break
            seen = seen or i in self.named
        seen = False
        for i in range(end, last):
            word = self.words[i]
            if word in rules.apart or (seen and word in (",", "and")):
                last = i
                break
            seen = seen or i in self.named
        return first, last

    def forward(self, end: int, limit: int, kind: CueKind) -> int:
        """Where a scope that begins at ``end`` stops.

        The comma of "possible small, rounded nodule" parts nothing.
        """
        if end >= len(self.words):
            return end
        state = kind.effect.startswith("state")
        last = min(self.clause(max(end - 1, 0))[1], end + limit)
        i = bisect_right(self.stops, end - 1)
        if i < len(self.stops) and not state and self.words[self.stops[i]] == ",":
            between = self.words[end : self.stops[i]]
            if (between or kind.effect != "negative") and self.before_nouns.issuperset(between):
                i += 1
        if i < len(self.stops):
            last = min(last, self.stops[i])
        if state:
            i = bisect_right(self.states, end - 1)
            if i < len(self.states):
                last = min(last, self.states[i])
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


def find_cues(words: Sequence[str], mentions: Sequence[Mention]) -> list[Cue]:
    """All cues of a sentence with their scopes."""
    found = _rules().cues.matches(words)
    matches = [match for match in found if match.payload.effect != "aside"]
    if not matches:
        return []
    kept = _consumed(matches)
    asides = [match.start for match in found if match.payload.effect == "aside"]
    sentence = _Sentence(words, kept, asides, mentions)
    cues = []
    for match in kept:
        kind, start, end = match.payload, match.start, match.end
        if kind.effect in ("neutral", "break"):
            continue
        if kind.effect in ("between", "alternatives"):
            cues.append(Cue(kind, start, end, *sentence.around(start, end, kind.words)))
            continue
        if kind.reach in ("forward", "both"):
            last = sentence.forward(end, kind.words, kind)
            cues.append(Cue(kind, start, end, end, last))
        if kind.reach in ("backward", "both") or (kind.reach == "back from end" and end == len(words)):
            state = kind.effect.startswith("state")
            first = sentence.backward(start, end, kind.words, state)
            cues.append(Cue(kind, start, end, first, start))
    return cues
