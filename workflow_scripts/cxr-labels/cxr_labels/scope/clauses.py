"""Clauses of a sentence, and the ends of scopes inside them.

Clauses end at ``;``, ``:``, "but" and the like, and where a second verb starts a new statement.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from cxr_labels.scope.cue_words import CueKind, CueRules, cue_rules
from cxr_labels.scope.mentions import Mention
from cxr_labels.scope.phrases import Match
from cxr_labels.scope.run_ons import TELLING, run_on_statements

HARD_MARKS = frozenset(";()[]!|")
# "Heart size:" is the topic of the clause behind it: no more words than this before a colon.
LONGEST_TOPIC = 6
PIECE_MARKS = frozenset((",", "with"))
STOPPING = frozenset((",", "and", "with"))
# First words of the place of a finding that is present.
PLACES = frozenset(("left", "right", "lingula", "both", "upper", "lower", "middle"))
# States of an organ that may follow a dash, and organs to which "normal" extends.
DASHED = frozenset(("normal", "unremarkable", "enlarged", "clear", "none", "no", "nil", "absent"))
# What may follow a label and a dash ("Effusion - not seen").
DEGREES = frozenset(
    (
        "not",
        "mild",
        "mod",
        "min",
        "sev",
        "mildly",
        "slightly",
        "moderately",
        "severely",
        "markedly",
        "minimally",
        "grossly",
    )
    + ("borderline", "at", "within", "upper", "top", "unlikely", "resolved", "excluded")
)
LONGEST_DASHED = 4
ORGANS = frozenset(("heart", "cardiac", "mediastinum", "lungs", "hila", "aorta", "bones", "pleura"))
# Words that join two states of one organ.
STATE_JOINTS = frozenset(
    ("and", ",", "at", "grossly", "also", "remains", "remain", "is", "are", "in", "size", "of")
    + ("changed", ";", "it", "which", "they")
)
# A clause about what the clause before names: "an effusion, which has since cleared", "…; it is".
PRONOUNS = frozenset(("which", "it", "they", "this", "these"))
# Most words before a noun ("no small, rounded nodule") between which a comma ends no scope.
LONGEST_ROW = 6


def _ends_sentence(words: Sequence[str], i: int) -> bool:
    """True if the stop at ``i`` ends a sentence; not after "vs", initials and list numbers."""
    before = words[i - 1] if i else ""
    return len(before) > 2 and before.isalpha()


def _is_label_dash(words: Sequence[str], start: int, i: int) -> bool:
    """True if the dash at ``i`` parts a label, which begins at ``start``, from its answer."""
    following = "".join(words[i + 1 : i + 2])
    rules, label = cue_rules(), words[start:i]
    short = len(label) <= LONGEST_DASHED and rules.always_starters.isdisjoint(label)
    return following in DASHED or (short and following in DEGREES)


def clause_starts(
    words: Sequence[str], breaks: Sequence[Match[CueKind]], mentions: Sequence[Mention] = ()
) -> list[int]:
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
        ends = ends or (word == "-" and not _is_label_dash(words, last, i))
        if word == ":":
            ends = i - last > LONGEST_TOPIC or not verbs.isdisjoint(words[last:i])
        if ends:
            last = i + 1
            hard.add(last)
    for match in breaks:
        hard.add(match.start)
    hard |= run_on_statements(words, mentions)
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
                cut = next((start for start, comma in reversed(pieces) if comma), pieces[0][0])
                starts.add(cut)
            has_verb, pieces = True, []
    return sorted(s for s in starts if s < len(words)) or [0]


def _opening_parentheses(words: Sequence[str]) -> dict[int, int]:
    """For each ")" the position before the "(" that it closes."""
    opening, places = {}, []
    for i, word in enumerate(words):
        if word == "(":
            places.append(i)
        elif word == ")" and places:
            opening[i] = places.pop() - 1
    return {close: before for close, before in opening.items() if before >= 0}


class SentenceScopes:
    """Borders of the scopes in a sentence, computed once, so that a scope costs O(1) to O(n)."""

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
        breaks = [match for match in matches if match.payload.effect == "break"]
        self.starts = clause_starts(words, breaks, mentions)
        self.states = sorted({m.start for m in matches if m.payload.effect.startswith("state")})
        self.steady = {m.start for m in matches if m.payload.effect == "state steady"}
        self.opening = _opening_parentheses(words) if "(" in words else {}
        self.mention_starts = sorted({mention.start for mention in mentions})
        self.devices = {m.start for m in mentions if m.observation == "Support Devices"}
        stops = () if STOPPING.isdisjoint(words) else self._stops(rules)
        self.stops = sorted({*stops, *asides})

    def _or_follows(self) -> list[bool]:
        """True where an "or" follows inside the clause: such a list continues past its commas."""
        count = len(self.words)
        ends = {*self.starts[1:], count}
        follows, or_ahead = [False] * count, False
        for i in range(count - 1, -1, -1):
            or_ahead = (or_ahead and i + 1 not in ends) or self.words[i] in ("or", "nor")
            follows[i] = or_ahead
        return follows

    def _is_place(self, i: int) -> bool:
        """True if a place ("in the left …") begins at word ``i``."""
        at = i + 2 if self.words[i + 1 : i + 2] == ["the"] else i + 1
        return (
            self.words[i] in ("in", "at", "within")
            and at < len(self.words)
            and (self.words[at] in PLACES)
        )

    def _asserting_commas(self, rules: CueRules) -> set[int]:
        """The commas, and "and", before a piece that asserts a presence.

        Such a piece names a finding that "remains", "is worse" or lies "in the left lung", or a
        device behind a mention of something else.
        """
        commas: set[int] = set()
        first_mention, lasting = len(self.words), False
        at = len(self.mention_starts) - 1
        for i in range(len(self.words) - 1, -1, -1):
            word = self.words[i]
            if at >= 0 and self.mention_starts[at] == i:
                first_mention, at = i, at - 1
                lasting_after = lasting
            if word in (",", "and"):
                if first_mention < len(self.words):
                    device = first_mention in self.devices
                    after_none = at >= 0 and self.mention_starts[at] not in self.devices
                    if (device and after_none) or (not device and lasting_after):
                        commas.add(i)
                first_mention, lasting = len(self.words), False
            lasting = lasting or word in rules.lasting or self._is_place(i)
        return commas

    def _stops(self, rules: CueRules) -> list[int]:
        """The commas, "and" and "with" that a scope does not pass.

        After "no A or B" the list is complete: the next comma begins something else.
        """
        words, starts, or_follows = self.words, set(self.starts), self._or_follows()
        asserting, mention_starts = self._asserting_commas(rules), set(self.mention_starts)
        stops: list[int] = []
        mentioned = joined = complete = False
        for i, word in enumerate(words):
            if i in starts:
                mentioned = joined = complete = False
            if i in mention_starts:
                complete, mentioned = complete or joined, True
            if word in ("or", "nor"):
                joined = mentioned
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
                mentioned = joined = complete = False
        return stops

    def clause(self, position: int) -> tuple[int, int]:
        i = bisect_right(self.starts, position)
        return self.starts[i - 1], self.starts[i] if i < len(self.starts) else len(self.words)

    def around(self, start: int, end: int, kind: CueKind) -> tuple[int, int]:
        """The range of words for alternatives on both sides of the cue ("or", "versus").

        A comma ends it, except in a list ("A, B, or C").
        """
        rules = cue_rules()
        first, last = self.clause(start)
        first, last = max(first, start - kind.words), min(last, end + kind.words)
        # "Opacity, mucus versus edema"
        in_list, crossed = self.words[start - 1] == ",", kind.effect == "alternatives"
        for i in range(start - 1, first - 1, -1):
            word = self.words[i]
            if word in rules.commas or (
                crossed and (word == "and" or (word == "," and not in_list))
            ):
                first = i + 1
                break
            crossed = crossed or self._mention_begins(i)
        crossed = False
        for i in range(end, last):
            word = self.words[i]
            if word in rules.commas or (crossed and word in (",", "and")):
                last = i
                break
            crossed = crossed or self._mention_begins(i)
        return first, last

    def _mention_begins(self, i: int) -> bool:
        """True if a mention begins at word ``i``."""
        at = bisect_left(self.mention_starts, i)
        return at < len(self.mention_starts) and self.mention_starts[at] == i

    def forward(self, start: int, end: int, limit: int, kind: CueKind) -> int:
        """End of the forward scope of a cue at ``start`` to ``end``.

        The comma of "no small, rounded nodule" does not end it. Uncertainty ("possible left and
        right effusions", but not ", possibly old,") extends to the next mention, and a
        differential to the end of its clause.
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
        # "On the last film, there was edema"
        if kind.effect == "void" and "," in self.words[end + 1 : last]:
            return self.words.index(",", end + 1)
        if kind.effect == "void" and self.words[end] == ",":
            return last
        i = bisect_right(self.stops, end - 1)
        following = [self.words[stop] for stop in self.stops[i : i + 1]]
        if kind.rule == "possible" and not self.words[start - 1 : start] == following == [","]:
            at = bisect_left(self.mention_starts, end)
            i = max(i, bisect_left(self.stops, min([last, *self.mention_starts[at : at + 1]])))
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
        """True if stop ``i`` is followed by one more organ without a state of its own."""
        if i >= len(self.stops) or self.stops[i] >= last - 1:
            return False
        at = self.stops[i] + 1
        rest = self.words[at:last]
        has_state = bisect_left(self.states, at) < bisect_left(self.states, last)
        return rest[0] in ORGANS and not has_state and self.verbs.isdisjoint(rest)

    def backward(self, start: int, end: int, kind: CueKind) -> int:
        """First word of the scope that runs back from the cue at ``start``.

        With a verb the subject may be a list ("A, B and C are not seen"); without one the cue
        belongs to the piece between commas.
        """
        first, state = self.clause(start)[0], kind.effect.startswith("state")
        # "The heart, which is enlarged", "a nodule (6 mm) may be …": about the clause before.
        if first and self._refers(first, start) and (state or kind.effect == "negative"):
            first = self.clause(first - 1)[0]
        elif first and self.words[first - 1] == ")":
            first = self.clause(self.opening.get(first - 1, first))[0]
        first = max(first, start - kind.words)
        has_verb = any(self.words[i] in self.verbs for i in range(max(start - 3, first), end))
        if state:
            i = bisect_right(self.states, start - 1) - 1
            # "Stable and within normal limits" is one state.
            joined = self.words[self.states[i] + 1 : start] if i >= 0 else ()
            if i >= 0 and self.states[i] in self.steady and STATE_JOINTS.issuperset(joined):
                i -= 1
            if i >= 0:
                first = max(first, self.states[i] + 1)
        # "Known effusion, now resolved", "unchanged heart, within normal limits"
        alone = state and (end == len(self.words) or not self.words[end].isalnum())
        crosses = (alone or kind.rule == "has resolved") and self.words[start - 1] == ","
        return max(first, self._piece(start - crosses, first, has_verb, state))

    def _refers(self, first: int, start: int) -> bool:
        """True if the words ``first`` to ``start`` are about the clause before."""
        if bisect_left(self.mention_starts, first) != bisect_left(self.mention_starts, start):
            return False
        at = first + (self.words[first] in ("but", "and", "today", "now", "currently"))
        # "The heart is smaller but remains enlarged"
        return self.words[at] in PRONOUNS or (at > first and self.words[at] in self.verbs)

    def _piece(self, start: int, first: int, has_verb: bool, state: bool) -> int:
        """First word, from ``first`` on, of the cue's piece between commas."""
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
                mentions = self.mention_starts
                return i + 1 if bisect_left(mentions, i) < bisect_left(mentions, start) else first
        return first
