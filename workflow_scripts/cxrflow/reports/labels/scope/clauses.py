"""Clauses of a sentence, and where a scope inside one stops.

Clauses end at ``;``, ``:``, "but" and the like, and where a second verb starts a new statement.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from cxrflow.reports.labels.scope.cue_words import CueKind, CueRules, cue_rules
from cxrflow.reports.labels.scope.mentions import Mention
from cxrflow.reports.labels.scope.phrases import Match

HARD_MARKS = frozenset(";()[]!")
# "Heart size:" announces what is said of it: so few words before a colon go with what follows.
LONGEST_TOPIC = 6
PIECE_MARKS = frozenset((",", "with"))
# Behind these "there is" goes on with what was begun.
TELLING = frozenset(("that", "whether", "if", "evidence", "suggest", "indicate", "think", "where"))
STOPPING = frozenset((",", "and", "with"))
# What the place of a finding that is there begins with.
PLACES = frozenset(("left", "right", "lingula", "both", "upper", "lower", "middle"))
# What may be said of an organ after a dash, and organs that "normal" goes on to.
DASHED = frozenset(("normal", "unremarkable", "enlarged", "clear", "none", "no", "nil", "absent"))
ORGANS = frozenset(("heart", "cardiac", "mediastinum", "lungs", "hila", "aorta", "bones", "pleura"))
# Words that join two states of one organ.
STATE_JOINTS = frozenset(("and", ",", "at", "grossly", "also", "remains", "remain", "is", "are"))
# So many words before a noun ("no small, rounded nodule") are looked through.
LONGEST_ROW = 6


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
    verbs = cue_rules().verbs
    hard, last = {0}, 0
    for i, word in enumerate(words):
        ends = word in HARD_MARKS or (word == "." and _ends_sentence(words, i))
        # "Heart size - normal"
        ends = ends or (word == "-" and "".join(words[i + 1 : i + 2]) not in DASHED)
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
            if has_verb and words[i - 1] == "there" and words[i - 2] not in TELLING:
                starts.add(i - 1)
            elif has_verb and pieces:
                cut = next((p for p, comma in reversed(pieces) if comma), pieces[0][0])
                starts.add(cut)
            has_verb, pieces = True, []
    return sorted(s for s in starts if s < len(words)) or [0]


def _opened(words: Sequence[str]) -> dict[int, int]:
    """Where the innermost "(" of each ")" stands."""
    opened, places = {}, []
    for i, word in enumerate(words):
        if word == "(":
            places.append(i)
        elif word == ")" and places:
            opened[i] = places.pop() - 1
    return {close: before for close, before in opened.items() if before >= 0}


class Sentence:
    """The marks of a sentence that scopes stop at, each found once, so scopes cost O(1) to O(n)."""

    def __init__(
        self,
        words: Sequence[str],
        matches: Sequence[Match[CueKind]],
        asides: Sequence[int],
        mentions: Sequence[Mention],
    ):
        rules = cue_rules()
        self.verbs, self.words = rules.verbs, words
        self.before_nouns = rules.starters | rules.qualifiers
        self.starts = clause_starts(words, [m for m in matches if m.payload.effect == "break"])
        self.states = sorted({m.start for m in matches if m.payload.effect.startswith("state")})
        self.steady = {m.start for m in matches if m.payload.effect == "state steady"}
        self.opened = _opened(words) if "(" in words else {}
        self.named = sorted({mention.start for mention in mentions})
        self.devices = {m.start for m in mentions if m.observation == "Support Devices"}
        stops = () if STOPPING.isdisjoint(words) else self._stops(rules)
        self.stops = sorted({*stops, *asides})

    def _or_follows(self) -> list[bool]:
        """Whether an "or" follows inside the clause: such a list goes on past its commas."""
        n = len(self.words)
        ends = {*self.starts[1:], n}
        follows, seen = [False] * n, False
        for i in range(n - 1, -1, -1):
            seen = (seen and i + 1 not in ends) or self.words[i] in ("or", "nor")
            follows[i] = seen
        return follows

    def _is_place(self, i: int) -> bool:
        """Whether "in the left …" or the like begins at word ``i``."""
        at = i + 2 if self.words[i + 1 : i + 2] == ["the"] else i + 1
        return (
            self.words[i] in ("in", "at", "within")
            and at < len(self.words)
            and (self.words[at] in PLACES)
        )

    def _asserting_commas(self, rules: CueRules) -> set[int]:
        """The commas, and "and", before a piece that says that something is there.

        It names a finding that "remains", "is worse" or lies "in the left lung", or a device after
        what is none.
        """
        commas: set[int] = set()
        first_named, lasting = len(self.words), False
        at = len(self.named) - 1
        for i in range(len(self.words) - 1, -1, -1):
            word = self.words[i]
            if at >= 0 and self.named[at] == i:
                first_named, at = i, at - 1
                lasting_after = lasting
            if word in (",", "and"):
                if first_named < len(self.words):
                    device = first_named in self.devices
                    after_none = at >= 0 and self.named[at] not in self.devices
                    if (device and after_none) or (not device and lasting_after):
                        commas.add(i)
                first_named, lasting = len(self.words), False
            lasting = lasting or word in rules.lasting or self._is_place(i)
        return commas

    def _stops(self, rules: CueRules) -> list[int]:
        """The commas, "and" and "with" that a scope does not pass.

        After "no A or B" the list is complete: the next comma begins something else.
        """
        words, starts, or_follows = self.words, set(self.starts), self._or_follows()
        asserting, named_at = self._asserting_commas(rules), set(self.named)
        stops: list[int] = []
        named = joined = complete = False
        for i, word in enumerate(words):
            if i in starts:
                named = joined = complete = False
            if i in named_at:
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
                after_list = complete and word == ","
                stop = not or_follows[i] and (after_list or i in asserting)
            if stop:
                stops.append(i)
                named = joined = complete = False
        return stops

    def clause(self, position: int) -> tuple[int, int]:
        i = bisect_right(self.starts, position)
        return self.starts[i - 1], self.starts[i] if i < len(self.starts) else len(self.words)

    def around(self, start: int, end: int, kind: CueKind) -> tuple[int, int]:
        """The words that alternatives on both sides of the cue ("or", "versus") may stand in.

        A comma ends them, but for those of a list ("A, B, or C").
        """
        rules = cue_rules()
        first, last = self.clause(start)
        first, last = max(first, start - kind.words), min(last, end + kind.words)
        # "Opacity, mucus versus edema"
        in_list, seen = self.words[start - 1] == ",", kind.effect == "alternatives"
        for i in range(start - 1, first - 1, -1):
            word = self.words[i]
            if word in rules.apart or (seen and (word == "and" or (word == "," and not in_list))):
                first = i + 1
                break
            seen = seen or self._names(i)
        seen = False
        for i in range(end, last):
            word = self.words[i]
            if word in rules.apart or (seen and word in (",", "and")):
                last = i
                break
            seen = seen or self._names(i)
        return first, last

    def _names(self, i: int) -> bool:
        """Whether a mention begins at word ``i``."""
        at = bisect_left(self.named, i)
        return at < len(self.named) and self.named[at] == i

    def forward(self, start: int, end: int, limit: int, kind: CueKind) -> int:
        """Where the scope of a cue at ``start`` to ``end`` stops.

        The comma of "no small, rounded nodule" parts nothing; uncertainty ("possible left and right
        effusions", but not ", possibly old,") goes on to what it is about, and a differential to
        the end of its clause.
        """
        if end >= len(self.words):
            return end
        # "Tube removed, tracheostomy placed"
        if kind.effect == "negative" and self.words[end] == ",":
            return end
        state = kind.effect.startswith("state")
        last = min(self.clause(max(end - 1, 0))[1], end + limit)
        if kind.rule == "differential":
            return last
        i = bisect_right(self.stops, end - 1)
        following = [self.words[stop] for stop in self.stops[i : i + 1]]
        if kind.rule == "possible" and not self.words[start - 1 : start] == following == [","]:
            at = bisect_left(self.named, end)
            i = max(i, bisect_left(self.stops, min([last, *self.named[at : at + 1]])))
        elif i < len(self.stops) and not state and self.words[self.stops[i]] == ",":
            between = self.words[end : min(self.stops[i], end + LONGEST_ROW + 1)]
            if 0 < len(between) <= LONGEST_ROW and self.before_nouns.issuperset(between):
                i += 1
        # "Normal heart and mediastinum"
        while kind.effect == "state negative" and self._goes_on(i, last):
            i += 1
        if i < len(self.stops):
            last = min(last, self.stops[i])
        if state:
            i = bisect_right(self.states, end - 1)
            if i < len(self.states):
                last = min(last, self.states[i])
        return last

    def _goes_on(self, i: int, last: int) -> bool:
        """Whether behind stop ``i`` stands one more organ, of which nothing else is said."""
        if i >= len(self.stops) or self.stops[i] >= last - 1:
            return False
        at = self.stops[i] + 1
        rest = self.words[at:last]
        has_state = bisect_left(self.states, at) < bisect_left(self.states, last)
        return rest[0] in ORGANS and not has_state and self.verbs.isdisjoint(rest)

    def backward(self, start: int, end: int, limit: int, state: bool) -> int:
        """Where a scope that runs back from the cue at ``start`` begins.

        With a verb the subject may be a list ("A, B and C are not seen"); without one the cue
        belongs to the piece between commas.
        """
        first = self.clause(start)[0]
        # "The heart, which is enlarged", "a nodule (6 mm) may be …": said of what stands before.
        if first and state and self.words[first] == "which":
            first = self.clause(first - 1)[0]
        elif first and self.words[first - 1] == ")":
            first = self.clause(self.opened.get(first - 1, first))[0]
        first = max(first, start - limit)
        has_verb = any(self.words[i] in self.verbs for i in range(max(start - 3, first), end))
        if state:
            i = bisect_right(self.states, start - 1) - 1
            # "Stable and within normal limits" is one state.
            joined = self.words[self.states[i] + 1 : start] if i >= 0 else ()
            if i >= 0 and self.states[i] in self.steady and STATE_JOINTS.issuperset(joined):
                i -= 1
            if i >= 0:
                first = max(first, self.states[i] + 1)
        return max(first, self._piece(start, first, has_verb, state))

    def _piece(self, start: int, first: int, has_verb: bool, state: bool) -> int:
        """Where, from ``first`` on, the piece between commas begins that a cue belongs to."""
        # "Effusion, consolidation: none."
        if self.words[start] == ":" and ":" not in self.words[first:start]:
            return first
        for i in range(start - 1, first - 1, -1):
            word = self.words[i]
            if not has_verb:
                if word in PIECE_MARKS:
                    return i + 1
            elif state:
                # "Enlarged heart, lungs are clear": the lungs are.
                if self.words[i : i + 2] == [",", "lungs"] and self.words[i + 2] in self.verbs:
                    return i + 1
            elif word in ("and", "or", "nor"):
                break  # a list: "consolidation, effusion and edema have resolved"
            elif word == ",":
                # "Stable nodule, effusion has resolved": the effusion has.
                named = bisect_left(self.named, start) > bisect_left(self.named, i)
                return i + 1 if named else first
        return first
