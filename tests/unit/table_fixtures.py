"""What the tables' programs read: entries of metrics, metrics.json files, files of tests."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cxrflow.files.atomic import write_json


def estimate(value: Any, low: float | None = None, high: float | None = None, n: int = 4) -> Any:
    """A metric with its interval."""
    return {"value": value, "low": low, "high": high, "n": n}


def write_result(
    path: Path, task: str, model: str, seed: int, metrics: dict[str, Any], **more: Any
) -> Path:
    """metrics.json of a training; ``more``: its other fields."""
    data = {"name": "tiny", "synthetic": more.pop("synthetic", True), "fingerprint": "f"}
    content = {"task": task, "model": model, "seed": seed, "learnt": True, "protocol": {}}
    write_json(path, content | {"data": data, "metrics": metrics} | more)
    return path


def write_tests(
    path: Path, comparisons: Iterable[dict[str, Any]], cells: Iterable[dict[str, Any]] = ()
) -> Path:
    """A file of paired tests."""
    content = {"protocol": {"level": 0.95}, "cells": [*cells], "comparisons": [*comparisons]}
    write_json(path, content)
    return path
