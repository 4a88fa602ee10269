"""CheXpert labels of a report: mention, scope, aggregation; and why each label is what it is.

Follows the three stages of the CheXpert labeller (Irvin et al. 2019, section "Label extraction")
with the ``scope`` engine in place of its parsers. A sentence is read once: its assertions are
kept, as reports repeat the same sentences by the thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cxrflow.reports.aggregate import aggregate
from cxrflow.reports.cues import knows
from cxrflow.reports.mentions import find_mentions, mention_tree, speller
from cxrflow.reports.phrases import Token, tokenize
from cxrflow.reports.scope import POSITIVE, UNCERTAIN, assess
from cxrflow.reports.settings import LabelSettings

CACHED_SENTENCES = 200_000
CACHED_LENGTH = 1_000
HEART_FAILURE = frozenset(("chf", "failure"))


@dataclass(frozen=True)
class Reason:
    """Why an observation has a value: the phrase, the rule, and where they stand.

    ``start``–``end`` is the phrase's span in sentence number ``sentence``; ``cue_start`` and
    ``cue_end`` the span of the words that the rule goes by (equal when there are none).
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


def corrected_words(tokens: Sequence[Token]) -> list[str]:
    """The tokens' words; misspelt ones are corrected where no rule knows them as they are."""
    tree, correct = mention_tree(), speller().correct
    return [t.word if tree.atoms(t.word) or knows(t.word) else correct(t.word) for t in tokens]


def read_sentence(
    sentence: str, number: int = 0, alternatives: Literal["uncertain", "positive"] = "uncertain"
) -> list[Reason]:
    """All assertions of one sentence; ``number`` is its place in the report."""
    tokens = tokenize(sentence)
    words = corrected_words(tokens)
    mentions = find_mentions(words)
    if not mentions:
        return []
    reasons = []
    value_of_or = UNCERTAIN if alternatives == "uncertain" else POSITIVE
    for assertion in assess(words, mentions, value_of_or):
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


class Labeller:
    """Labels reports given as sentences; one interface for every engine."""

    def __init__(self, settings: LabelSettings | None = None):
        self.settings = settings or LabelSettings()
        self._known: dict[str, tuple[tuple[str, int], ...]] = {}

    def _assertions(self, sentence: str) -> tuple[tuple[str, int], ...]:
        known = self._known.get(sentence)
        if known is None:
            reasons = read_sentence(sentence, 0, self.settings.alternatives)
            known = tuple({(r.observation, r.value) for r in reasons})
            if len(sentence) <= CACHED_LENGTH:
                if len(self._known) >= CACHED_SENTENCES:
                    self._known.clear()
                self._known[sentence] = known
        return known

    def label(self, sentences: Sequence[str]) -> tuple[float, ...]:
        """The 14 labels in the order of ``mentions.OBSERVATIONS``: 1, 0, -1 or NaN (blank)."""
        return aggregate(pair for sentence in sentences for pair in self._assertions(sentence))

    def explain(self, sentences: Sequence[str]) -> list[Reason]:
        """Every assertion behind the labels, in reading order ("Other finding" included)."""
        alternatives = self.settings.alternatives
        return [r for i, s in enumerate(sentences) for r in read_sentence(s, i, alternatives)]
