"""Which cohorts a run compares by their pictures: noted by its main process, read by its stores."""

from collections.abc import Sequence
from dataclasses import dataclass

from cxr_files import attempts


@dataclass(frozen=True)
class Compared:
    """Two cohorts of different data sets, and the models that learn from one, scored by the other.

    ``scored``, ``learnt``: names of the cohorts.
    """

    scored: str
    learnt: str
    learners: Sequence[str]


def note(pairs: Sequence[Compared]) -> None:
    """Write down which cohorts this run compares."""
    attempts.note("copies", pairs)


def noted() -> list[Compared]:
    """What the run has written down; nothing outside of the workflow."""
    return [Compared(**values) for values in attempts.noted("copies")]
