"""One frame for figures of several models: what is read of their results, and what is written.

The program of a figure has ``COLUMNS``, what it needs of the cohort's table, and
``draw(inputs, settings) -> FigureDrawing``, which says what a panel shows.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cxr_files.errors import InputError
from cxrflow.benchmarks.figures.settings import FigureColumn
from cxrflow.benchmarks.inputs import Cohort, read_cohort
from cxrflow.metrics.record import read_metrics


@dataclass(frozen=True)
class ModelResult:
    """A result folder with its metrics.json, and the folders that were given beside it."""

    folder: Path
    record: dict[str, Any]
    options: Mapping[str, Path]  # models, pixels, features: those that the figure reads


@dataclass(frozen=True)
class FigureDrawing:
    """The picture of a figure, None where it has none, and what its JSON file says of it.

    ``shows``: the data of patients on it; ``lines``: the picture in words.
    """

    picture: bytes | None
    caption: str
    lines: Sequence[str]
    shows: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


class FigureInputs:
    """The results of a figure, and what they were measured on, read when asked for."""

    def __init__(self, options: Namespace, reads: Sequence[str], columns: Sequence[str]) -> None:
        self.folder, self.table_columns = options.cohort, columns
        self.phrases: bool = options.phrases  # report text may be printed
        self.results = [
            ModelResult(
                folder,
                read_metrics(folder / "metrics.json"),
                {name: getattr(options, name)[place] for name in reads},
            )
            for place, folder in enumerate(options.results)
        ]

    @cached_property
    def cohort(self) -> Cohort:
        """All rows of the cohort, of samples or of pairs."""
        pairs = (self.folder / "pairs.parquet").is_file()
        file = "pairs.parquet" if pairs else "samples.parquet"
        return read_cohort(self.folder, file, self.table_columns)

    @property
    def data(self) -> dict[str, Any]:
        """The entry ``data`` of the JSON file."""
        data: dict[str, Any] = self.cohort.data if self.folder else self.results[0].record["data"]
        return data

    def columns(self, columns: Sequence[FigureColumn]) -> dict[str, ModelResult]:
        """The results by the label of their column; InputError when there is none."""
        by_model = {result.record["model"]: result for result in self.results}
        by_label = {c.label: by_model[c.model] for c in columns if c.model in by_model}
        if not by_label:
            raise InputError(
                f"--results: of {', '.join(by_model)}; expected one of "
                f"{', '.join(str(column.model) for column in columns)}"
            )
        return by_label
