"""Figures that hold several models side by side: which result belongs to which column."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrflow.benchmarks.figures.settings import FigureColumn
from cxrflow.errors import InputError
from cxrflow.files.atomic import read_object


@dataclass(frozen=True)
class ModelColumn:
    """A column and its model's result, which stands at ``place`` of what the program was given."""

    label: str
    place: int
    folder: Path
    said: dict[str, Any]  # metrics.json


def given_columns(options: Namespace, columns: Sequence[FigureColumn]) -> list[ModelColumn]:
    """The columns that there is a result of, in their order; InputError when there is none."""
    records = [read_object(folder / "metrics.json", ("model",)) for folder in options.results]
    place = {record["model"]: number for number, record in enumerate(records)}
    columns_with_result = [
        ModelColumn(column.label, number, options.results[number], records[number])
        for column in columns
        if column.model is not None and (number := place.get(column.model)) is not None
    ]
    if not columns_with_result:
        raise InputError(
            f"--results: of {', '.join(place)}; expected one of "
            f"{', '.join(str(column.model) for column in columns)}"
        )
    return columns_with_result
