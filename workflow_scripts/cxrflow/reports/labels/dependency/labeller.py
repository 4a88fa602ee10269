"""The ``dependency`` engine: published phrases, published patterns, and a parser of today.

The three stages of the CheXpert labeller (Irvin et al. 2019, section "Label extraction") with its
own rule files. Its parser (BLLIP and Stanford's converter) is replaced by one that gives Universal
Dependencies. Only sentences with a mention are parsed, each once; one that cannot be parsed is
counted and asserts nothing, where the published labeller called its mentions positive.
"""

from collections.abc import Iterable, Sequence

from cxrflow.reports.labels.aggregate import aggregate
from cxrflow.reports.labels.dependency.assertions import Verdict, assess, negated_whole
from cxrflow.reports.labels.dependency.mentions import Cleaned, clean, find_mentions, lower
from cxrflow.reports.labels.dependency.parsers import Parser
from cxrflow.reports.labels.dependency.propagation import propagate
from cxrflow.reports.labels.labeller import Reason, ReportLabels
from cxrflow.reports.labels.observations import NEGATIVE, UNCERTAIN

CACHED_SENTENCES = 200_000
CACHED_LENGTH = 1_000
# Characters; what is longer is no sentence, and is not given to a parser.
LONGEST = 5_000
HEART_FAILURE = frozenset(("chf", "heart failure"))


# What a sentence asserts; None where it mentions something and could not be parsed.
Values = tuple[tuple[str, int], ...] | None


class DependencyLabeller:
    """Labels reports given as sentences by the published rules on the parser's graphs."""

    def __init__(self, parser: Parser):
        self._parser = parser
        self._known: dict[str, Values] = {}

    def label(self, reports: Sequence[Sequence[str]]) -> list[ReportLabels]:
        """The labels of each report; sentences with a mention but no parse are counted."""
        readings = self._readings(sentence for sentences in reports for sentence in sentences)
        labels = []
        for sentences in reports:
            read = [readings[sentence] for sentence in sentences]
            unread = sum(values is None for values in read)
            pairs = (pair for values in read if values is not None for pair in values)
            labels.append(ReportLabels(aggregate(pairs, unread), unread))
        return labels

    def explain(self, sentences: Sequence[str]) -> list[Reason]:
        """Every assertion behind one report's labels, in reading order; none of unread ones."""
        read = self._read(list(sentences))
        return [
            reason
            for number, (sentence, (cleaned, verdicts)) in enumerate(
                zip(sentences, read, strict=True)
            )
            for verdict in verdicts or ()
            for reason in _reasons(verdict, cleaned, sentence, number)
        ]

    def _readings(self, sentences: Iterable[str]) -> dict[str, Values]:
        """The readings of all sentences, from memory or anew."""
        readings: dict[str, Values] = {}
        new: list[str] = []
        for sentence in dict.fromkeys(sentences):
            if sentence in self._known:
                readings[sentence] = self._known[sentence]
            else:
                new.append(sentence)
        for sentence, (cleaned, verdicts) in zip(new, self._read(new), strict=True):
            values: Values = None
            if verdicts is not None:
                reasons = (r for v in verdicts for r in _reasons(v, cleaned, sentence, 0))
                values = tuple(dict.fromkeys((r.observation, r.value) for r in reasons))
            readings[sentence] = values
            if len(sentence) <= CACHED_LENGTH:
                if len(self._known) >= CACHED_SENTENCES:
                    self._known.clear()
                self._known[sentence] = readings[sentence]
        return readings

    def _read(self, sentences: Sequence[str]) -> list[tuple[Cleaned, list[Verdict] | None]]:
        """Each sentence cleaned, and what it asserts; None when it should be parsed and is not."""
        cleaned = [clean(sentence) for sentence in sentences]
        mentions = [find_mentions(c.text) for c in cleaned]
        verdicts: list[list[Verdict] | None] = [
            negated_whole(c.text, found) if found else []
            for c, found in zip(cleaned, mentions, strict=True)
        ]
        left = [i for i, v in enumerate(verdicts) if v is None and len(cleaned[i].text) <= LONGEST]
        for i, graph in zip(left, self._parser.parse([cleaned[i].text for i in left]), strict=True):
            if graph is not None:
                propagate(graph)
                verdicts[i] = assess(graph, mentions[i])
        return list(zip(cleaned, verdicts, strict=True))


def _reasons(verdict: Verdict, cleaned: Cleaned, sentence: str, number: int) -> list[Reason]:
    mention, value = verdict.mention, verdict.value
    start, end = cleaned.given(mention.start, mention.end)
    cue = cleaned.given(*verdict.cue) if verdict.cue else (start, start)
    phrase = sentence[start:end]
    own = Reason(mention.observation, value, number, phrase, verdict.rule, start, end, *cue)
    text = lower(cleaned.text[mention.start : mention.end])
    if text in HEART_FAILURE and value != NEGATIVE:
        also = Reason("Cardiomegaly", UNCERTAIN, number, phrase, "heart failure", start, end, *cue)
        return [own, also]
    return [own]
