"""All scores of a page: each measured cell of its tables beside the strongest baseline.

Rows with an equal budget of labels are compared: a probe of one per cent of them with what
baselines without learning reach from one per cent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cxrflow.papers import Paper
from cxrflow.papers.table import HEADLINE, TableCell
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.living import LivingColumn
from cxrflow.show.tables.cells import SMALLER, Cell, make_cells
from cxrflow.show.tables.orderings import Compared, compare
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.tests import Tests
from cxrflow.show.tables.text import number, ours_text, split_title

SHOWN = (
    LivingColumn("Paper", "paper", pick=True),
    LivingColumn("Table", "table", pick=True),
    LivingColumn("Row", "row"),
    LivingColumn("Score", "score"),
    LivingColumn("Labels", "labels"),
    LivingColumn("Value", by=15),
    LivingColumn("Interval", by=9),
    LivingColumn("Strongest baseline", "baseline"),
    LivingColumn("Its value", by=14),
)
# In the CSV alone: numbers that are not rounded, by which those above are sorted, and the like.
CSV_ALONE = ("low", "high", "interval_over", "seeds", "task", "baseline_value", "value")
COLUMNS = (*SHOWN, *(LivingColumn(csv=name) for name in CSV_ALONE))


@dataclass(frozen=True)
class PaperScores:
    """What the tables of a paper are made of, read once."""

    paper: Paper
    tables: Sequence[str]  # of this page's extent
    results: Results
    tests: Mapping[str, Tests]

    @classmethod
    def read(cls, run: RunFolder, name: str) -> "PaperScores":
        """Read the scores and tests of a paper in the extent that the page shows."""
        chosen = run.config.results[name]
        tables = [table.removeprefix(HEADLINE) for table in chosen.tables(run.papers[name])]
        tests = {table: run.tests(name, table) for table in tables}
        return cls(chosen.paper, tables, run.results(name), tests)

    @cached_property
    def cells(self) -> dict[str, list[Cell]]:
        """The cells of each table, row by row."""
        return {
            name: make_cells(self.paper.tables[name], self.results, self.tests[name])
            for name in self.tables
        }

    @cached_property
    def compared(self) -> list[Compared]:
        """The rankings that the paper claims, a pair of neighbours each."""
        entries = {key: entry for t in self.tests.values() for key, entry in t.entries.items()}
        intervals = {key: ends for t in self.tests.values() for key, ends in t.intervals.items()}
        alphas = [tests.alpha for tests in self.tests.values()]
        return compare(self.paper, self.results, Tests(entries, intervals, *alphas[:1]))


def strongest_baseline(spot: TableCell, cells: Mapping[tuple[str, str], Cell]) -> Cell | None:
    """The best of the rows that have learnt nothing and have a row's budget of labels."""
    table, row, column = spot
    floors = [
        cells[each.label, column.key]
        for each in table.rows
        if each.is_baseline and each.share == row.share and each is not row
    ]
    measured = [cell for cell in floors if isinstance(cell.ours, float)]
    best = min if spot.metric.startswith(SMALLER) else max
    return best(measured, key=lambda cell: float(cell.ours or 0.0), default=None)


def score_lines(name: str, scores: PaperScores) -> list[list[Any]]:
    """The measured cells of a paper, in the order of ``COLUMNS``."""
    lines: list[list[Any]] = []
    for key in scores.tables:
        table, cells = scores.paper.tables[key], scores.cells[key]
        by_place = {(cell.row, cell.column): cell for cell in cells}
        title, _ = split_title(table.title)
        for spot, cell in zip(table.spots, cells, strict=True):
            if isinstance(cell.ours, float):
                place = [name, title, spot.row.label, spot.column.label]
                known = None if spot.row.is_reference else strongest_baseline(spot, by_place)
                lines.append([*place, *_columns(spot, cell, known)])
    return lines


def _columns(spot: TableCell, cell: Cell, beside: Cell | None) -> list[Any]:
    table, row, column = spot
    texts = ours_text(cell, column)
    baseline = beside.ours if beside is not None and isinstance(beside.ours, float) else None
    return [
        f"{row.share} %" if row.share else "",
        texts["value"],
        texts.get("interval", ""),
        beside.row if beside is not None else "",
        "" if baseline is None else number(baseline, column),
        *(_plain(end) for end in (cell.low, cell.high)),
        cell.over if cell.low is not None else "",
        cell.seeds,
        table.task_of(row, column) if column.mean_of is None else "",
        _plain(baseline),
        _plain(cell.ours),
    ]


def _plain(value: float | str | None) -> float | None:
    return float(f"{value:.6g}") if isinstance(value, float) else None
