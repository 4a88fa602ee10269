"""What a comparison of two cells says of a claim: one of five words, from what is recorded of it.

A line of ``orderings.csv`` holds all that the verdict reads, so that a recorded run is judged by
the same rules as the one that is being made (docs/inference.md).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cxr_files.errors import InputError
from cxr_files.settings import explain
from cxrflow.benchmarks.settings import LEAST_SEEDS
from cxrflow.metrics.crossed import Spread, half_width
from cxrflow.show.tables.text import csv_lines

HOLDS, OPPOSITE, NOT_SHOWN = "holds", "opposite", "not shown"
NOT_COMPARABLE, NOT_RUN = "not comparable", "not run"
VERDICTS = (HOLDS, OPPOSITE, NOT_SHOWN, NOT_COMPARABLE, NOT_RUN)
#: What is asked for at most; beyond it a claim cannot be shown here.
MOST_SEEDS, MOST_PATIENTS = 20, 10.0


class Comparison(BaseModel):
    """Two neighbouring cells of a claim, the one that the paper calls better first.

    Numbers are in the column's unit. The difference is ``better`` less ``worse`` times ``factor``,
    ``between`` and ``common`` are the parts of its variance (:mod:`cxrflow.metrics.crossed`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    table: str
    column: str
    digits: int
    smaller: bool  # smaller values are better
    margin: float | None
    factor: float | None
    better: str
    better_ours: float | None
    better_low: float | None
    better_high: float | None
    better_published: str | None
    worse: str
    worse_ours: float | None
    worse_low: float | None
    worse_high: float | None
    worse_published: str | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    between: float | None = None
    common: float | None = None
    patients: float | None = None
    is_equivalent: bool | None = None  # within the margin
    trained: int | None = None  # the fewest trainings of a side; None: nothing was trained
    seeds: int = 0  # common to both sides
    seeds_in_order: int = 0
    not_comparable: str | None = None  # why
    not_judged: str | None = None  # why, though there are values

    def gain(self, better: float, worse: float) -> float:
        """The difference in the direction of the claim: above 0 if ``better`` is better."""
        worse *= self.factor or 1.0
        return worse - better if self.smaller else better - worse

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval of the gain; without one of the difference, what two intervals leave."""
        if self.low is not None and self.high is not None:
            return (-self.high, -self.low) if self.smaller else (self.low, self.high)
        sides = (self.better_low, self.better_high, self.worse_low, self.worse_high)
        if self.difference is not None or any(end is None for end in sides):
            return None
        low, high, other_low, other_high = (float(end or 0.0) for end in sides)
        if self.smaller:
            return self.gain(high, other_low), self.gain(low, other_high)
        return self.gain(low, other_high), self.gain(high, other_low)

    @property
    def judged(self) -> tuple[str, str]:
        """The verdict, and why it is not another one."""
        if self.better_ours is None or self.worse_ours is None:
            return NOT_RUN, ""
        if self.not_comparable:
            return NOT_COMPARABLE, self.not_comparable
        if self.trained is not None and self.trained < LEAST_SEEDS:
            return NOT_SHOWN, "one seed" if self.trained == 1 else f"{self.trained} seeds"
        if self.not_judged:
            return NOT_SHOWN, self.not_judged
        if self.margin is not None:
            return self._equivalent(self.margin)
        gain = self.gain(self.better_ours, self.worse_ours)
        if self.ends is None:
            return NOT_SHOWN, "no interval"
        low, high = self.ends
        if low > 0 and gain > 0:
            return HOLDS, ""
        if high < 0 and gain < 0:
            return OPPOSITE, ""
        if round(gain, self.digits) == 0:
            return NOT_SHOWN, "no difference"
        order = "in order" if gain > 0 else "in the opposite order"
        return NOT_SHOWN, f"{order}, may be chance"

    def _equivalent(self, margin: float) -> tuple[str, str]:
        if self.is_equivalent:
            return HOLDS, ""
        if self.ends is not None and (self.ends[0] > margin or self.ends[1] < -margin):
            return OPPOSITE, ""
        return NOT_SHOWN, "the difference may exceed the margin"

    @property
    def verdict(self) -> str:
        """One of the five words."""
        return self.judged[0]

    @property
    def decided_by(self) -> str:
        """What would decide a claim that is not shown, if the difference is as large as here."""
        verdict, why = self.judged
        if verdict != NOT_SHOWN:
            return ""
        if self.trained is not None and self.trained < LEAST_SEEDS:
            return f"{LEAST_SEEDS} seeds"
        spread = (self.difference, self.between, self.common, self.patients)
        if self.not_judged or any(number is None for number in spread):
            return ""
        difference, between, common, patients = (float(number or 0.0) for number in spread)
        distance = abs(difference) if self.margin is None else self.margin - abs(difference)
        return _sufficient(distance, Spread(between, common), patients, max(self.seeds, 1))


def _sufficient(distance: float, spread: Spread, patients: float, seeds: int) -> str:
    """The fewest seeds, else patients, whose interval is shorter than ``distance`` on each side."""
    numbers = range(seeds, MOST_SEEDS + 1) if spread.between else [seeds]
    for times in (1.0, 2.0, 4.0, MOST_PATIENTS):
        for number in numbers:
            if half_width(spread, number, patients, times) < distance:
                few = [f"{number} seeds"] if number > seeds else []
                few += [f"{times:g} times the patients"] if times > 1 else []
                return " and ".join(few)
    return f"cannot be shown here: beyond {MOST_SEEDS} seeds, {MOST_PATIENTS:g} times the patients"


COLUMNS = (*Comparison.model_fields, "verdict", "why")


def lines(comparisons: Iterable[Comparison]) -> list[list[Any]]:
    """The lines of the CSV, without its head (``COLUMNS``)."""
    return [[*dict(comparison).values(), *comparison.judged] for comparison in comparisons]


def read_comparisons(file: Path) -> list[Comparison]:
    """Read ``orderings.csv``.

    Raises:
        InputError: the file is missing, or has other columns, or a value of another kind.
    """
    return [_comparison(file, number, row) for number, row in csv_lines(file, COLUMNS)]


def _comparison(file: Path, number: int, row: dict[str, str]) -> Comparison:
    judged = row.pop("verdict"), row.pop("why")
    try:
        comparison = Comparison.model_validate({name: text or None for name, text in row.items()})
    except ValidationError as error:
        raise InputError(explain(error, f"{file}:{number}")) from None
    if judged != comparison.judged:
        raise InputError(
            f"{file}:{number}: verdict is '{judged[0]}'; its values give '{comparison.verdict}': "
            "record the run again"
        )
    return comparison
