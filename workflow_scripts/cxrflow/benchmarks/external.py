"""Predictions of a model that was run elsewhere, in a table (docs/external_models.md).

A row an image, a study or a sample, named by ``sample_id``, ``image_id`` or ``study_id``. A
benchmark's entry in the registry names the function that scores such a table.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.atomic import file_digest
from cxr_files.csv_table import read_text
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Floats

KEYS = ("sample_id", "image_id", "study_id")
# Settings that name the rows of a task that are not scored, but learnt from or chosen by.
OTHER_PARTS = ("train_split", "validation_split", "threshold_part")


class ExternalTable:
    """The rows of a CSV or Parquet file, by the id in its first of :data:`KEYS`."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            InputError: it is absent or damaged, names no rows, or names one twice.
        """
        self.path = path
        self.frame = _read(path)
        keys = [name for name in KEYS if name in self.frame]
        if not keys:
            raise InputError(
                f"{path}: no column {' or '.join(KEYS)}; found "
                f"{', '.join(map(str, self.frame.columns)) or 'none'}"
            )
        self.key = keys[0]
        ids = self.frame[self.key].astype("str").str.strip()
        if self.frame[self.key].isna().any() or (ids == "").any():
            raise InputError(f"{path}: column '{self.key}' is blank in a row; expected an id")
        if ids.duplicated().any():
            raise InputError(
                f"{path}: {self.key} '{ids[ids.duplicated()].iloc[0]}' stands more than once"
            )
        self._index = pd.Index(ids)

    def require_key(self, name: str) -> None:
        """Raise an InputError if the rows are named by another id."""
        if self.key != name:
            raise InputError(f"{self.path}: rows are named by {self.key}; expected {name}")

    def rows(self, samples: pd.DataFrame) -> NDArray[np.int64]:
        """The row of each sample; -1 for one that the file lacks."""
        if self.key not in samples:
            raise InputError(
                f"{self.path}: rows are named by {self.key}, which this task has not; expected "
                f"{' or '.join(name for name in KEYS if name in samples)}"
            )
        return self._index.get_indexer(pd.Index(samples[self.key].astype("str"))).astype("int64")

    def column(self, samples: pd.DataFrame, name: str) -> pd.Series:
        """Return the values of samples that the file has, in their order."""
        if name not in self.frame:
            raise InputError(
                f"{self.path}: column '{name}' is missing; found "
                f"{', '.join(map(str, self.frame.columns))}"
            )
        rows = self.rows(samples)
        if (rows < 0).any():
            absent = samples[self.key].astype("str").iloc[int(np.argmin(rows))]
            raise InputError(f"{self.path}: no row of {self.key} '{absent}'")
        values: pd.Series = self.frame[name].iloc[rows]
        return values.set_axis(samples.index)

    def numbers(self, samples: pd.DataFrame, names: Sequence[str]) -> Floats:
        """Return finite numbers [N, C] of columns."""
        columns = []
        for name in names:
            values = np.array([_number(value) for value in self.column(samples, name)])
            self._require_finite(np.isfinite(values), samples, name, "a number")
            columns.append(values)
        return np.stack(columns, axis=1)

    def vectors(self, samples: pd.DataFrame, name: str = "vector") -> NDArray[np.float32]:
        """Return vectors [N, F] of a column of lists."""
        try:
            values = np.stack([np.asarray(v, "float32") for v in self.column(samples, name)])
        except (TypeError, ValueError):
            values = np.zeros(0, "float32")
        if values.ndim != 2 or values.shape[1] == 0:
            raise InputError(
                f"{self.path}: column '{name}' holds no vectors of one length; expected a list of "
                "as many numbers in each row, as Parquet stores it"
            )
        finite = np.isfinite(values).all(axis=1)
        self._require_finite(finite, samples, name, "finite numbers")
        return values

    def _require_finite(
        self, finite: NDArray[np.bool_], samples: pd.DataFrame, name: str, expected: str
    ) -> None:
        if not finite.all():
            row = samples[self.key].astype("str").iloc[int(np.argmin(finite))]
            raise InputError(
                f"{self.path}: column '{name}' of {self.key} '{row}': expected {expected}"
            )

    def restrict(self, inputs: Inputs, settings: Any) -> list[Drop]:
        """Leave out of the cohort the rows of the task that the file lacks, and return them.

        ``part`` names those that are not scored: what is learnt from, chosen by or searched.
        """
        table = inputs.cohort.table
        absent = self.rows(table) < 0
        used = table[self.key].notna()
        parts = pd.Series(None, table.index, dtype="object")  # of rows that are not scored
        if settings.split is not None and "split" in table:
            others = [getattr(settings, name, None) for name in OTHER_PARTS]
            parts = table["split"].where(table["split"].isin(others))
            used &= parts.notna() | table["split"].isin([settings.split])
        if "part" in table:  # of retrieval
            parts = table["part"].where(table["part"] != "query")
        lost = used & absent
        if lost.sum() == used.sum():
            example = table[self.key][used].astype("str").head(1).tolist()
            raise InputError(
                f"{self.path}: holds no {self.key} of {inputs.source}, such as {example}; "
                f"but {', '.join(self._index[:1])}"
            )
        inputs.cohort = replace(inputs.cohort, table=table[~lost].reset_index(drop=True))
        why, ids = f"not in {self.path.name}", table[self.key]
        drops = [Drop.of(why, ids[lost & parts.isna()])]
        names = parts[lost].dropna().unique()
        drops += [Drop.of(why, ids[lost & parts.isin([name])], part=name) for name in names]
        return [drop for drop in drops if drop.count]


def _number(value: Any) -> float:
    """A number as it is written, to the last digit; NaN of what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return read_table(path)
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    frame, damaged = read_text(path)
    for drop in damaged:
        raise InputError(f"{drop.examples[0]}: {drop.reason}")
    return frame


def predict(benchmark: str, path: Path, inputs: Inputs, settings: Any) -> Predictions:
    """Return the predictions that a file of another model makes in a task.

    ``data.external`` of the result names the file and its digest; ``missing`` counts the scored
    rows that it lacks. Those that it lacks of other parts are ``rows_missing`` of the protocol: who
    has learnt from fewer was not measured alike.
    """
    table = ExternalTable(path)
    missing = table.restrict(inputs, settings)
    predictions: Predictions = imported(BENCHMARKS[benchmark].external)(table, inputs, settings)
    record = {
        "file": path.name,
        "digest": file_digest(path)[:16],
        "missing": sum(drop.count for drop in missing if drop.part is None),
    }
    rows_missing = {drop.part: drop.count for drop in missing if drop.part is not None}
    protocol = {"rows_missing": rows_missing} if rows_missing else {}
    dropped = [*(drop.as_json() for drop in missing), *predictions.data.get("dropped", ())]
    data = {**predictions.data, "external": record, "dropped": dropped}
    return replace(predictions, data=data, protocol={**predictions.protocol, **protocol})
