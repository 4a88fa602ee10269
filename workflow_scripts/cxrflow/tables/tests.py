"""Differences to a reference row as a table shows them: read, joined to cells, marked, explained.

Made by :mod:`cxrflow.benchmarks.paired_tests`. A mark stands where the two-sided p is below one
less the level of the interval; a second one where it still is after Holm's correction for all
comparisons of the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.papers.tables import Column, Row, Table

KEYS = tuple(PairedComparison.model_fields)
FIELDS = (*KEYS, "reason")
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
    reason: str | None


@dataclass(frozen=True)
class Tests:
    """All comparisons of a table."""

    entries: Mapping[PairedComparison, dict[str, Any]] = field(default_factory=dict)
    alpha: float = 0.05
    replicates: int = 0

    def of(self, table: Table, row: Row, column: Column) -> Tested | None:
        """The comparison of a cell with its reference row's, or None when there is none."""
        other = table.reference_of(row)
        return None if other is None else self.between(table, row, other, column)

    def between(self, table: Table, row: Row, other: Row, column: Column) -> Tested | None:
        """The comparison of two rows' cells, whichever of them was the reference."""
        for one, reference, sign in ((row, other, 1.0), (other, row, -1.0)):
            compared = table.comparison(one, reference, column)
            entry = self.entries.get(compared) if compared else None
            if entry is not None:
                return self._tested(entry, other.label, sign * column.scale)
        return None

    def _tested(self, entry: Mapping[str, Any], reference: str, scale: float) -> Tested:
        ends = [entry.get(n) for n in ("difference", "difference_low", "difference_high")]
        value, *interval = (None if end is None else end * scale for end in ends)
        low, high = interval if scale > 0 else reversed(interval)
        p, p_holm = entry.get("p"), entry.get("p_holm")
        mark = ""
        if p is not None and p < self.alpha:
            mark = CORRECTED if p_holm is not None and p_holm < self.alpha else MARK
        return Tested(reference, value, low, high, p, p_holm, mark, entry["reason"])


def read_tests(paths: Sequence[Path]) -> Tests:
    """Read the comparisons of tables, of one protocol. InputError names what is missing."""
    tests = Tests()
    for path in paths:
        content = read_object(path, ("comparisons", "protocol"))
        entries = dict(tests.entries)
        for number, entry in enumerate(content["comparisons"]):
            for name in FIELDS:
                if name not in entry:
                    raise InputError(f"{path}: comparisons[{number}]: field '{name}' is missing")
            entries[PairedComparison(**{name: entry[name] for name in KEYS})] = entry
        protocol = content["protocol"]
        alpha = round(1 - float(protocol["level"]), 6)
        tests = Tests(entries, alpha, int(protocol["replicates"]))
    return tests
