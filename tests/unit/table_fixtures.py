"""What the tables' programs read: entries of metrics, metrics.json files, files of tests."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cxr_files.atomic import write_json, write_sealed
from cxrflow.papers.table import Row, Table


def estimate(value: Any, low: float | None = None, high: float | None = None, n: int = 4) -> Any:
    """A metric with its interval."""
    return {"value": value, "low": low, "high": high, "n": n}


def write_result(
    path: Path, task: str, model: str, seed: int, metrics: dict[str, Any], **more: Any
) -> Path:
    """metrics.json of a training; ``more``: its other fields."""
    data = {"name": "tiny", "synthetic": more.pop("synthetic", True), "fingerprint": "f"}
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
    **metrics,
):  # fmt: skip
    path = folder / f"{task}-{model}-{seed}-{synthetic}.json"
    metrics["cnr"] = estimate(value, value - 0.2, value + 0.1, 50)
    said = {"learnt": learnt, "drawn": drawn, "protocol": {"crop": True}}
    return write_result(path, task, model, seed, metrics, synthetic=synthetic, **said)


def with_rows(*rows, **more):
    """The table with other rows."""
    return TABLE.model_copy(update={"rows": [Row.model_validate(row) for row in rows], **more})
