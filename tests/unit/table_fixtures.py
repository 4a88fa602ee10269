"""What the tables' programs read: entries of metrics, metrics.json files, files of tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cxr_files.atomic import write_json, write_sealed
from cxrflow.papers.table import Column, Row, Table
from cxrflow.show.tables.cells import Cell, make_cells
from cxrflow.show.tables.rendering import table_html, table_markdown
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.tests import Tests


def estimate(value: Any, low: float | None = None, high: float | None = None, n: int = 4) -> Any:
    """A metric with its interval."""
    return {"value": value, "low": low, "high": high, "n": n}


def write_result(
    path: Path, task: str, model: str, seed: int, metrics: dict[str, Any], **more: Any
) -> Path:
    """metrics.json of a training; ``more``: its other fields."""
    data = {"name": "tiny", "synthetic": more.pop("synthetic", True), "fingerprint": "f"}
    data |= more.pop("data", {})
    content = {"task": task, "benchmark": "own", "model": model, "seed": seed, "learnt": True}
    content["protocol"] = {}
    write_json(path, content | {"data": data, "metrics": metrics} | more)
    return path


def write_tests(
    path: Path, comparisons: Iterable[dict[str, Any]], cells: Iterable[dict[str, Any]] = ()
) -> Path:
    """A file of paired tests."""
    content = {"protocol": {"level": 0.95}, "cells": [*cells], "comparisons": [*comparisons]}
    write_sealed(path, content)
    return path


TABLE = Table.model_validate(
    {
        "title": "Table 9. <Test>",
        "source": "Paper, Table 9",
        "task": "grounding",
        "columns": [
            {"key": "avg", "label": "Avg. CNR", "metric": "cnr"},
            {"key": "rate", "label": "Rate (%)", "metric": "rate", "scale": 100, "digits": 1},
            {"key": "words", "label": "Word", "metric": "spelling/{vocabulary}",
             "task": "vocabulary", "reason": "no vocabulary"},
        ],
        "rows": [
            {"label": "Theirs", "reason": "weights are absent",
             "published": {"avg": ["0.70", "0.03"], "words": ["op-acity", None]}},
            {"label": "Ours | both", "model": "m", "vocabulary": "v",
             "published": {"avg": ["1.027", "0.02"], "rate": ["-2.50", None]}},
            {"label": "Absent", "model": "n"},
        ],
        "notes": ["A note."],
    }
)  # fmt: skip


def result(
    folder, seed, value, task="grounding", model="m", synthetic=False, learnt=True, drawn=False,
    data=(), protocol=(), **metrics,
):  # fmt: skip
    path = folder / f"{task}-{model}-{seed}-{synthetic}.json"
    metrics["cnr"] = estimate(value, value - 0.2, value + 0.1, 50) | metrics.pop("cnr", {})
    said = {"learnt": learnt, "drawn": drawn, "protocol": {"crop": True, **dict(protocol)}}
    said["data"] = dict(data)
    return write_result(path, task, model, seed, metrics, synthetic=synthetic, **said)


def with_rows(*rows, columns=(), **more):
    """The table with other rows, and other columns where they are given."""
    update = {"rows": [Row.model_validate(row) for row in rows], **more}
    if columns:
        update["columns"] = [Column.model_validate(column) for column in columns]
    return TABLE.model_copy(update=update)


class Typeset(NamedTuple):
    """A table's cells, and the table as Markdown and as HTML."""

    cells: list[Cell]
    text: str
    html: str

    @property
    def by_place(self) -> dict[tuple[str, str], Cell]:
        return {(cell.row, cell.column): cell for cell in self.cells}


def typeset(table: Table, files: Sequence[Path], tests: Tests | None = None) -> Typeset:
    """Set a table from results."""
    results = read_results(files)
    cells = make_cells(table, results, tests)
    shown = table_html("t", table, cells, results, tests)
    return Typeset(cells, table_markdown(table, cells, results, tests), shown)
