"""Joining a table's definition with results: one cell a (row, column).

Ours are the mean over training seeds with its sample standard deviation. The interval is over test
samples: the mean, over the seeds, of the ends of each seed's bootstrap interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

from cxrflow.papers.tables import Column, Row, Table
from cxrflow.tables.results import NOT_RUN, Results
from cxrflow.tables.tests import Tested, Tests

UNDEFINED = "could not be computed from this data"


@dataclass(frozen=True)
class Cell:
    """Ours and the published value; numbers are in the column's unit, text where it has text."""

    row: str
    column: str
    ours: float | str | None = None
    ours_sd: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0  # of trainings; data have none
    published: str | None = None
    published_sd: str | None = None
    reason: str | None = None
    tested: Tested | None = None
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """Ours minus published, where both are numbers."""
        if isinstance(self.ours, str) or self.ours is None or self.published is None:
            return None
        try:
            return self.ours - float(self.published)
        except ValueError:
            return None


def _mean_or_none(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def make_cell(table: Table, row: Row, column: Column, results: Results) -> Cell:
    """One cell: ours over seeds, the published value, and the reason where ours are missing."""
    published, published_sd = row.published.get(column.key, [None, None])
    cell = Cell(row.label, column.key, published=published, published_sd=published_sd)
    if column.key in row.blank:
        return cell
    name = row.metric_of(column)
    result = table.result_of(row, column)
    runs = results.of(result)
    by_seed = {
        run["seed"]: run["metrics"][name]
        for run in runs
        if run["metrics"].get(name, {}).get("value") is not None
    }
    entries = list(by_seed.values())
    if not entries:
        reason = (
            None if any(name in run["metrics"] for run in runs) else row.reason or column.reason
        )
        wanted = row.model is not None or row.vocabulary is not None or row.data
        if reason is None and wanted:
            reason = UNDEFINED if runs else results.left_out.get(result or ("", None), NOT_RUN)
        return replace(cell, reason=reason)
    cell = replace(cell, seeds=0 if row.data else len(entries))
    values = [entry["value"] for entry in entries]
    if isinstance(values[0], str):
        return replace(cell, ours=values[0])
    ends = [_mean_or_none([entry.get(end) for entry in entries]) for end in ("low", "high")]
    low, high = (None if end is None else end * column.scale for end in ends)
    return replace(
        cell,
        ours=fmean(values) * column.scale,
        ours_sd=stdev(values) * column.scale if len(values) > 1 else None,
        low=low,
        high=high,
        by_seed={seed: entry["value"] * column.scale for seed, entry in by_seed.items()},
    )


def make_cells(table: Table, results: Results, tests: Tests | None = None) -> list[Cell]:
    """All cells, row by row, with what was tested against a reference row."""
    known = tests or Tests()
    return [
        replace(make_cell(table, row, column, results), tested=known.of(table, row, column))
        for row in table.rows
        for column in table.columns
    ]
