"""Sentences that name a finding, and reports with such sentences of another (MedCutMix).

Eq. 1 and 3 of Wang et al. 2026. A sentence is diagnostic of a class if the class's name stands in
it, in lower case or capitals, even where the sentence denies the finding, and as a part of a
longer word ("hydropneumothorax"). A reader of findings, such as a labeller, can decide it instead
(ours).

Shapes: S sentences of a report, W words of a text.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxrflow.text.cleaned_reports import cleaned_words
from cxrflow.text.report_batch import ReportSentence


class DiagnosticSentences:
    """Finds the classes that sentences are diagnostic of; each distinct sentence is read once.

    ``findings``: returns the classes that a sentence calls present; None: the names in it count.
    """

    def __init__(
        self, classes: Sequence[str], findings: Callable[[str], Collection[str]] | None = None
    ) -> None:
        self.classes, self.findings = classes, findings
        self._names = [cleaned_words(name) for name in classes]
        self._numbers_of = cache(self._numbers)

    def __call__(self, sentence: str) -> frozenset[int]:
        """The numbers of the classes that a sentence is diagnostic of."""
        return frozenset(self._numbers_of(sentence))

    def _numbers(self, sentence: str) -> list[int]:
        if self.findings is not None:
            present = self.findings(sentence)
            return [number for number, name in enumerate(self.classes) if name in present]
        text = cleaned_words(sentence)
        return [number for number, name in enumerate(self._names) if name and name in text]


class ReadReport(NamedTuple):
    """The sentences of a text."""

    sentences: Sequence[ReportSentence]  # S
    classes: Sequence[frozenset[int]]  # S: what each is diagnostic of
    continues_V: NDArray[np.bool_]  # pieces of the vocabulary that continue a word

    @property
    def word_sentence(self) -> NDArray[np.int64]:
        """[W]: of each word, the number of its sentence."""
        words = [int((~self.continues_V[sentence.tokens]).sum()) for sentence in self.sentences]
        return np.repeat(np.arange(len(words)), words)

    def of(self, number: int, first: bool = False) -> list[int]:
        """The places of the sentences of a class, or of the first of them alone."""
        places = [place for place, numbers in enumerate(self.classes) if number in numbers]
        return places[:1] if first else places


def read_report(
    sentences: Sequence[ReportSentence],
    diagnostic: DiagnosticSentences,
    continues_V: NDArray[np.bool_],
) -> ReadReport:
    """Read the sentences of a text. ``continues_V``: pieces that continue a word."""
    return ReadReport(sentences, [diagnostic(sentence.text) for sentence in sentences], continues_V)


def pasted(
    target: ReadReport, places: Sequence[int], source: Sequence[ReportSentence]
) -> list[int]:
    """The tokens of a report in which ``source`` replaces its sentences at ``places`` (Eq. 3).

    All sentences of the source stand where the first of these stood. Without a source they are cut
    out.
    """
    tokens: list[int] = []
    for place, sentence in enumerate(target.sentences):
        if places and place == places[0]:
            tokens += [int(token) for new in source for token in new.tokens]
        if place not in places:
            tokens += sentence.tokens.tolist()
    return tokens
