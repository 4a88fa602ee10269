"""Differences to a reference row as a table shows them: read, joined to cells, marked, explained.

Made by :mod:`cxrflow.benchmarks.paired_tests`. A mark stands where the two-sided p is below one
less the level of the interval; a second one where it still is after Holm's correction for all
comparisons of the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.papers.tables import Column, Row, Table

if TYPE_CHECKING:
    from cxrflow.tables.cells import Cell

Key = tuple[str, ...]  # the values of a PairedComparison
KEYS = ("task", "model", "metric", "reference_model", "reference_metric")
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

    entries: Mapping[Key, dict[str, Any]] = field(default_factory=dict)
    alpha: float = 0.05
    replicates: int = 0

    def of(self, table: Table, row: Row, column: Column) -> Tested | None:
        """The comparison of a cell with its reference row's, or None when there is none."""
        other = table.reference_of(row)
        compared = None if other is None else table.comparison(row, other, column)
        if other is None or compared is None:
            return None
        entry = self.entries.get(tuple(compared.model_dump().values()))
        if entry is None:
            return None
        ends = [entry.get(n) for n in ("difference", "difference_low", "difference_high")]
        value, low, high = (None if end is None else end * column.scale for end in ends)
        p, p_holm = entry.get("p"), entry.get("p_holm")
        mark = ""
        if p is not None and p < self.alpha:
            mark = CORRECTED if p_holm is not None and p_holm < self.alpha else MARK
        return Tested(other.label, value, low, high, p, p_holm, mark, entry["reason"])


def read_tests(path: Path | None) -> Tests:
    """Read the comparisons of a table; none for None. InputError names what is missing."""
    if path is None:
        return Tests()
    found = read_object(path, ("comparisons", "protocol"))
    for number, entry in enumerate(found["comparisons"]):
        for name in FIELDS:
            if name not in entry:
                raise InputError(f"{path}: comparisons[{number}]: field '{name}' is missing")
    protocol = found["protocol"]
    return Tests(
        {tuple(entry[name] for name in KEYS): entry for entry in found["comparisons"]},
        round(1 - float(protocol["level"]), 6),
        int(protocol["replicates"]),
    )


def note_on_tests(cells: Sequence["Cell"], tests: Tests) -> list[str]:
    """What the marks mean, and what could not be tested."""
    found = [(cell, cell.tested) for cell in cells if cell.tested is not None]
    tested = [one for _, one in found if one.value is not None]
    notes = []
    if tested:
        names = {one.reference for one in tested}
        reference = f"“{names.pop()}”" if len(names) == 1 else "its reference row"
        marked = sum(bool(one.mark) for one in tested)
        notes.append(
            f"{MARK} differs from {reference} on the same samples, p < {tests.alpha:g} (two-sided, "
            f"paired bootstrap, {tests.replicates:,} resamples, given these trainings); "
            f"{CORRECTED} also after Holm's correction for the table's {len(tested)} comparisons, "
            f"which p itself is not corrected for. {marked or 'None'} of {len(tested)} "
            f"{'is' if marked == 1 else 'are'} marked. Point at a value for the difference."
        )
    reasons: dict[str, dict[str, None]] = {}
    for cell, one in found:
        if one.reason is not None and cell.ours is not None:
            reasons.setdefault(one.reason, {})[cell.row] = None
    notes += [f"Not tested: {'; '.join(rows)}: {why}." for why, rows in reasons.items()]
    return notes
