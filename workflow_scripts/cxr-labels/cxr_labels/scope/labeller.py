"""The ``scope`` engine: mentions, cues and their reach, and the reasons behind each label.

Follows the three stages of the CheXpert labeller (Irvin et al. 2019, section "Label extraction")
with cue words and their reach in place of its parsers. A sentence is read once and its assertions
are cached, as reports repeat the same sentences by the thousand.

From assertions to labels, as published: positive outranks uncertain outranks negative; an
observation that is nowhere mentioned stays blank. "Unchanged" yields to a state: beside "the heart
is normal" an unchanged heart is normal. So does "no new effusion", beside "the effusion has gone".
Heart failure, positive or uncertain, makes Cardiomegaly at least uncertain. No Finding is 1 when
nothing but support devices is positive or uncertain, other findings (emphysema, hernia,
granuloma …) included, and every word is accounted for (:mod:`.accounting`); it is otherwise blank,
never 0 or -1.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cxr_labels.observations import (
    BLANK,
    NEGATIVE,
    OBSERVATIONS,
    OTHER_FINDING,
    POSITIVE,
    UNCERTAIN,
    Labels,
)
from cxr_labels.scope.accounting import Unread, unread
from cxr_labels.scope.assertions import assess
from cxr_labels.scope.mentions import find_mentions
from cxr_labels.scope.words import words_of

CACHED_SENTENCES = 200_000
CACHED_LENGTH = 1_000
HEART_FAILURE = frozenset(("ccf", "chf", "failure", "hf", "lvf"))
# "The mediastinum is stable" is uncertain and no finding.
STEADY = "organ steady"
STEADY_WITHOUT_FINDING = ("Enlarged Cardiomediastinum",)
RANK = {NEGATIVE: 1, UNCERTAIN: 2, POSITIVE: 3}
RANK_STEADY = 0
# Rules of what was there before; these yield to a state.
YIELDING = (STEADY, "no new")


@dataclass(frozen=True)
class Reason:
    """The reason for a value of an observation: a phrase, a rule, and their spans.

    ``start``–``end`` is the phrase's span in sentence number ``sentence``; ``cue_start``–
    ``cue_end`` that of the rule's words (empty when there are none).
    """

    observation: str
    value: int
    sentence: int
    phrase: str
    rule: str
    start: int
    end: int
    cue_start: int
    cue_end: int

    @property
    def rank(self) -> int:
        """Of an observation's assertions, the one of the highest rank is its label."""
        return RANK_STEADY if self.rule in YIELDING else RANK[self.value]

    @property
    def is_finding(self) -> bool:
        """True if it rules out No Finding."""
        steady = self.rule == STEADY and self.observation in STEADY_WITHOUT_FINDING
        return self.value != NEGATIVE and self.observation != "Support Devices" and not steady


# Observation, rank, value, and whether it rules out No Finding.
Assertion = tuple[str, int, int, bool]


def aggregate(assertions: Iterable[Assertion]) -> Labels:
    """The 14 labels of a report's assertions."""
    best: dict[str, Assertion] = {}
    for assertion in assertions:
        other = best.get(assertion[0])
        if other is None or assertion[1] > other[1]:
            best[assertion[0]] = assertion
    labels, clear = dict.fromkeys(OBSERVATIONS, BLANK), True
    for observation, _, value, finding in best.values():
        clear = clear and not finding
        if observation != OTHER_FINDING:
            labels[observation] = float(value)
    if clear:
        labels["No Finding"] = float(POSITIVE)
    return tuple(labels.values())


def read_sentence(sentence: str, number: int = 0) -> list[Reason]:
    """All assertions of one sentence; ``number`` is its place in the report."""
    tokens, words = words_of(sentence)
    mentions = find_mentions(words)
    if not mentions:
        return []
    reasons = []
    for assertion in assess(words, mentions):
        mention, value, cue = assertion.mention, assertion.value, assertion.cue
        start, end = tokens[mention.start].start, tokens[mention.end - 1].end
        cue_span = (tokens[cue[0]].start, tokens[cue[1] - 1].end) if cue else (start, start)
        phrase, rule = sentence[start:end], assertion.rule
        reasons.append(
            Reason(mention.observation, value, number, phrase, rule, start, end, *cue_span)
        )
        failing = HEART_FAILURE & set(words[mention.start : mention.end])
        if mention.observation == "Edema" and failing and value != 0:
            rule = "heart failure"
            reasons.append(Reason("Cardiomegaly", -1, number, phrase, rule, start, end, *cue_span))
    return reasons


class ScopeLabeller:
    """Labels reports given as sentences by cue words and their reach."""

    def __init__(self) -> None:
        self._cache: dict[str, tuple[Assertion, ...]] = {}
        self._unread: dict[str, tuple[Unread, ...]] = {}

    def _assertions(self, sentence: str) -> tuple[Assertion, ...]:
        assertions = self._cache.get(sentence)
        if assertions is None:
            reasons = read_sentence(sentence)
            assertions = tuple({(r.observation, r.rank, r.value, r.is_finding) for r in reasons})
            if len(sentence) <= CACHED_LENGTH:
                if len(self._cache) >= CACHED_SENTENCES:
                    self._cache.clear()
                self._cache[sentence] = assertions
        return assertions

    def label(self, reports: Sequence[Sequence[str]]) -> list[Labels]:
        """The labels of each report."""
        return [values for values, _ in self.counted(reports)]

    def counted(self, reports: Sequence[Sequence[str]]) -> list[tuple[Labels, int]]:
        """The labels of each report, and how many unread words alone withhold No Finding."""
        rows = []
        for sentences in reports:
            values, count = self._stated(sentences), 0
            if values[0] == POSITIVE:
                count = sum(len(self._unread_of(sentence)) for sentence in sentences)
            rows.append(((BLANK, *values[1:]) if count else values, count))
        return rows

    def _stated(self, sentences: Sequence[str]) -> Labels:
        """The labels of what a report states, whatever else it says."""
        return aggregate(itertools.chain.from_iterable(map(self._assertions, sentences)))

    def unread(self, sentences: Sequence[str]) -> list[tuple[int, Unread]]:
        """The unread words that alone withhold No Finding, with the number of their sentence."""
        if self._stated(sentences)[0] != POSITIVE:
            return []
        return [(i, word) for i, s in enumerate(sentences) for word in self._unread_of(s)]

    def _unread_of(self, sentence: str) -> tuple[Unread, ...]:
        words = self._unread.get(sentence)
        if words is None:
            words = unread(sentence)
            if len(sentence) <= CACHED_LENGTH:
                if len(self._unread) >= CACHED_SENTENCES:
                    self._unread.clear()
                self._unread[sentence] = words
        return words

    def explain(self, sentences: Sequence[str]) -> list[Reason]:
        """Every assertion behind one report's labels, in reading order."""
        return [r for number, s in enumerate(sentences) for r in read_sentence(s, number)]
