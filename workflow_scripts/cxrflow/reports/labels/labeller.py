"""What every labelling engine promises: labels of reports, and the reason for each label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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


@dataclass(frozen=True)
class ReportLabels:
    """A report's labels: 1, 0, -1 or NaN (not mentioned), in the order of ``OBSERVATIONS``.

    ``unread`` counts sentences that hold a mention and could not be read (no parse). They assert
    nothing, and a report that has one is never No Finding.
    """

    values: tuple[float, ...]
    unread: int = 0


class Labeller(Protocol):
    """Labels reports that are given as sentences."""

    def label(self, reports: Sequence[Sequence[str]]) -> list[ReportLabels]:
        """The labels of each report."""
        ...

    def explain(self, sentences: Sequence[str]) -> list[Reason]:
        """Every assertion behind one report's labels, in reading order, other findings included.

        Raises:
            InputError: the engine gives no reasons.
        """
        ...
