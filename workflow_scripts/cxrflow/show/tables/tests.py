"""Intervals over seeds and samples, and differences to a reference row, as a table shows them.

Made by :mod:`cxrflow.benchmarks.paired_tests`. A mark stands where the two-sided p is below one
less the level of the interval; a second one where it still is after Holm's correction for all
comparisons of the table. Without p, for want of seeds, there is no mark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxr_files.atomic import read_sealed
from cxr_files.errors import InputError
from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.papers.table import Result, TableCell

KEYS = ("task", "model", "metric", "reference_model", "reference_metric")
OPTIONAL = ("reference_task", "margin", "factor")
FIELDS = (*KEYS, "seeds", "reason")
MARK, CORRECTED = "†", "‡"


@dataclass(frozen=True)
class Tested:
    """A cell less its reference, in the column's unit; ``value`` is None where not tested."""

    reference: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    mark: str
    seeds: int  # that both were trained with; 0: neither was trained
    reason: str | None  # why it is not tested, or where there is a value, not judged
    is_equivalent: bool | None = None  # within the margin; None: not tested
    between: float | None = None  # variance of the difference between trainings,
    common: float | None = None  # and what is common to them all
    patients: float | None = None


@dataclass(frozen=True)
class Tests:
    """All comparisons of a table, and the intervals of its results of several seeds."""

    entries: Mapping[PairedComparison, dict[str, Any]] = field(default_factory=dict)
    intervals: Mapping[Result, Mapping[str, dict[str, float]]] = field(default_factory=dict)
    alpha: float = 0.05

    @property
    def corrected_for(self) -> int:
        """The number of comparisons with a p."""
        return sum(entry.get("p") is not None for entry in self.entries.values())

    def of(self, spot: TableCell) -> Tested | None:
        """The comparison of a cell with its reference row's, or None when there is none."""
        reference = spot.table.reference_of(spot.row)
        return None if reference is None else self.between(spot, spot._replace(row=reference))

    def between(
        self,
        first: TableCell,
        second: TableCell,
        margin: float | None = None,
        factor: float | None = None,
    ) -> Tested | None:
        """The comparison of two cells, whichever of the two was the reference.

        With ``factor`` it is the second, which is multiplied by it.
        """
        orders = ((first, second, 1.0), (second, first, -1.0))
        for cell, reference, sign in orders[: 1 if factor else 2]:
            compared = cell.against(reference, margin, factor)
            entry = self.entries.get(compared) if compared else None
            if entry is not None:
                return self._tested(entry, second.row.label, sign * first.column.scale)
        return None

    def _tested(self, entry: Mapping[str, Any], reference: str, scale: float) -> Tested:
        ends = [entry.get(n) for n in ("difference", "difference_low", "difference_high")]
        value, *interval = (None if end is None else end * scale for end in ends)
        low, high = interval if scale > 0 else reversed(interval)
        p, p_holm = entry.get("p"), entry.get("p_holm")
        mark = ""
        if p is not None and p < self.alpha:
            mark = CORRECTED if p_holm is not None and p_holm < self.alpha else MARK
        equivalent = entry.get("p_equivalent")
        is_equivalent = None if equivalent is None else equivalent < self.alpha
        between, common = (
            None if entry.get(name) is None else entry[name] * scale**2
            for name in ("between", "common")
        )
        return Tested(
            *(reference, value, low, high, p, p_holm, mark, entry["seeds"], entry["reason"]),
            *(is_equivalent, between, common, entry.get("patients")),
        )


def read_tests(paths: Sequence[Path]) -> Tests:
    """Read the tests of tables. Raises InputError if a file is damaged, or lacks a field."""
    tests = Tests()
    for path in paths:
        content = read_sealed(path, ("cells", "comparisons", "protocol"))
        entries = dict(tests.entries)
        intervals = {(cell["task"], cell["model"]): cell["metrics"] for cell in content["cells"]}
        for number, entry in enumerate(content["comparisons"]):
            for name in FIELDS:
                if name not in entry:
                    raise InputError(f"{path}: comparisons[{number}]: field '{name}' is missing")
            key = {name: entry.get(name) for name in (*KEYS, *OPTIONAL)}
            entries[PairedComparison.model_validate(key)] = entry
        alpha = round(1 - float(content["protocol"]["level"]), 6)
        tests = Tests(entries, {**tests.intervals, **intervals}, alpha)
    return tests
