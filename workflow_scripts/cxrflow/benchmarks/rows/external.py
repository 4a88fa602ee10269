"""A model that was run elsewhere: a file of its scores, vectors, reports or maps.

A row an image, a study or a sample, named by ``sample_id``, ``image_id`` or ``study_id``
(docs/external_models.md). Vectors take the place of an encoder's features and go through the same
probe; scores, reports and maps are measured as those of our own models. A map covers its whole
image, at any size, and is scored on the image's own pixels.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.archives import unpacked
from cxr_files.arrays import read_array
from cxr_files.atomic import file_digest
from cxr_files.csv_table import read_text
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_files.reading import OutsideError, below
from cxrflow.benchmarks.classification.labelled_images import LabelledImages
from cxrflow.benchmarks.classification.linear_classification import scores_of_features
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.classification.transfer import LabelledSplits, RunScores
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.grounding.phrase_grounding import PhraseMaps, chosen_rescaling
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.rows.row import Row
from cxrflow.images.decode import read_picture
from cxrflow.images.decoded import DecodeError
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.intervals import Floats

KEYS = ("sample_id", "image_id", "study_id")
DECIMAL = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
# Settings that name the rows of a task that are not scored, but learnt from or chosen by.
OTHER_PARTS = ("train_split", "validation_split", "threshold_part")
GEOMETRY = "the model's own"  # which pixels it saw is not known here
# The whole image; the side counts only where maps are scored on the stored square's pixels.
WHOLE = Geometry.parse("square512")
RANGES = {"L": 255, "I;16": 65535}  # of grey PNG files, by Pillow's mode


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

    def restrict(self, inputs: Inputs, settings: Any, least_share: float) -> tuple[list[Drop], int]:
        """Leave out of the cohort the rows of the task that the file lacks.

        Returns them, and how many rows the task has. ``part`` names those that are not scored: what
        is learnt from, chosen by or searched.

        Raises:
            InputError: the file holds less than ``least_share`` of the scored rows or of a part.
        """
        table = inputs.cohort.table
        absent = self.rows(table) < 0
        in_task = table[self.key].notna()
        if "image_id" in table and inputs.has_pixels:  # others are left out of every row
            in_task &= inputs.pixels.holds(table["image_id"].fillna(""))
        parts = pd.Series(None, table.index, dtype="object")  # of rows that are not scored
        if settings.split is not None and "split" in table:
            other_splits = [getattr(settings, name, None) for name in OTHER_PARTS]
            parts = table["split"].where(table["split"].isin(other_splits))
            in_task &= parts.notna() | table["split"].isin([settings.split])
        if "part" in table:  # of retrieval
            parts = table["part"].where(table["part"] != "query")
        lost = in_task & absent
        if lost.sum() == in_task.sum():
            example = table[self.key][in_task].astype("str").head(1).tolist()
            raise InputError(
                f"{self.path}: holds no {self.key} of {inputs.source}, such as {example}; "
                f"but {', '.join(self._index[:1])}"
            )
        for name, of_part in parts[in_task].fillna("").groupby(parts[in_task].fillna("")):
            ids, count = table[self.key][of_part.index][lost].astype("str"), len(of_part)
            if count - len(ids) < least_share * count:
                role = f"of the part '{name}'" if name else "that are scored"
                least = "all" if least_share == 1 else f"at least {least_share:.4g}"
                raise InputError(
                    f"{self.path}: holds {count - len(ids):,} of the {count:,} rows of "
                    f"{inputs.source} {role}, and lacks such as {', '.join(ids[:2])}; expected "
                    f"{least} of them (the model's least_share, --least-share)"
                )
        inputs.cohort = replace(inputs.cohort, table=table[~lost].reset_index(drop=True))
        why, ids = f"not in {self.path.name}", table[self.key]
        drops = [Drop.of(why, ids[lost & parts.isna()])]
        names = parts[lost].dropna().unique()
        drops += [Drop.of(why, ids[lost & parts.isin([name])], part=name) for name in names]
        return [drop for drop in drops if drop.count], int(in_task.sum())


def _number(value: Any) -> float:
    """A number as it is written, to the last digit; NaN of what is none.

    Python's own reader takes ``1_000`` and the digits of other scripts, which no program writes.
    """
    if isinstance(value, str) and not DECIMAL.fullmatch(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return read_table(path)
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    with unpacked(path) as file:
        end = b""
        while chunk := file.read(1 << 20):
            end = chunk
    if not end.rstrip(b"\0").endswith((b"\n", b"\r")):
        raise InputError(
            f"{path}: its last line has no line end, as in a file that was cut off; expected a "
            "whole table, or end the line if it is one"
        )
    frame, damaged = read_text(path)
    for drop in damaged:
        raise InputError(f"{drop.examples[0]}: {drop.reason}")
    return frame


def read_map(path: Path) -> Floats:
    """Return a map [h, w]: a grey PNG of 8 or 16 bits as 0 to 1, a ``.npy`` as it is.

    Raises:
        InputError: the file is absent, damaged, not grey, or holds values that are not finite.
    """
    if path.suffix == ".npy":
        values = read_array(path, dimensions=2).astype(np.float64)
        if not values.size:
            raise InputError(f"{path}: shape is {list(values.shape)}; expected numbers [h, w]")
        return values
    try:
        picture = read_picture(path)
    except DecodeError as error:
        raise InputError(f"{path}: not a readable map ({error})") from None
    if picture.photometric not in RANGES:
        raise InputError(f"{path}: mode is {picture.photometric}; expected a grey image")
    return picture.values / RANGES[picture.photometric]


class ExternalFile(Row):
    """The row of a file.

    ``data.external`` of the result names the file and its digest; ``missing`` counts the scored
    rows that it lacks, ``lacks`` all of them and ``of`` those of the task. Those that it lacks of
    other parts are ``rows_missing`` of the protocol: who has learnt from fewer was not measured
    alike.
    """

    def __init__(self, path: Path, settings: Any, least_share: float = 1.0) -> None:
        super().__init__(path.stem, settings)
        self.knows_nothing = False  # whatever the file is called
        self.least_share, self.count = least_share, 0
        if getattr(settings, "augmentation", None) is not None:
            raise InputError(
                f"{path}: settings.augmentation is set, but a file has one vector an image; "
                "expected a task without it"
            )
        self.table, self.lost = ExternalTable(path), list[Drop]()

    def restrict(self, inputs: Inputs) -> None:
        self.lost, self.count = self.table.restrict(inputs, self.settings, self.least_share)

    def features(self, inputs: Inputs) -> Features:
        """Vectors as features of the cohort's stored images; none where scores are measured."""
        table = self.table
        ids = [n for n in dict.fromkeys(("image_id", table.key)) if n in inputs.cohort.table]
        images = inputs.cohort.table[ids].drop_duplicates("image_id")
        chosen = inputs.pixels.holds(images["image_id"].fillna("")) & (table.rows(images) >= 0)
        images = pd.DataFrame(images[chosen].reset_index(drop=True))
        by_kind = {}
        if not isinstance(self.settings, ZeroShotClassificationSettings):
            by_kind["pooled"] = torch.from_numpy(table.vectors(images))
        return Features(images[["image_id"]], by_kind, GEOMETRY, inputs.pixels.fingerprint)

    def scores(self, inputs: Inputs, labelled: Any, settings: Any) -> RunScores | dict[str, Floats]:
        """Scores of heads that learn from the vectors, or those of the file for prompts."""
        if isinstance(labelled, LabelledSplits):
            return scores_of_features(self.features(inputs), labelled, settings)
        return self._of_prompts(labelled, settings)

    def _of_prompts(self, images: LabelledImages, settings: Any) -> dict[str, Floats]:
        """Scores of a column a class; ``<class>/<pair>``: by another pair of prompts, if any."""
        self.protocol["score"] = "the file's"
        by_kind = {"score": self.table.numbers(images.table, images.classes)}
        for pair in settings.prompt_pairs:
            names = [f"{name}/{pair.name}" for name in images.classes]
            if set(names) <= set(map(str, self.table.frame.columns)):
                by_kind[f"score/{pair.name}"] = self.table.numbers(images.table, names)
        return by_kind

    def reports(self, inputs: Inputs, samples: pd.DataFrame, settings: Any) -> pd.Series:
        """The column ``report``; a blank one is an empty report."""
        self.protocol |= {"writes": "external", "prompt": None}
        texts: pd.Series = self.table.column(samples, "report").fillna("").astype("str")
        return texts

    def maps(
        self, inputs: Inputs, samples: pd.DataFrame, settings: PhraseGroundingSettings
    ) -> PhraseMaps:
        """The maps that the column ``map`` names, below the folder of the table."""
        self.table.require_key("sample_id")
        folder, paths = self.table.path.parent, []
        for name in self.table.column(samples, "map").astype("str"):
            try:
                paths.append(below(folder, name))
            except OutsideError:
                raise InputError(
                    f"{self.table.path}: map '{name}' lies outside of the table's folder"
                ) from None
        rescale = chosen_rescaling(settings.rescale, {})
        return PhraseMaps({"own": map(read_map, paths)}, WHOLE, rescale)

    def completed(self, predictions: Predictions) -> Predictions:
        path = self.table.path
        record = {
            "file": path.name,
            "digest": file_digest(path)[:16],
            "missing": sum(drop.count for drop in self.lost if drop.part is None),
            "lacks": sum(drop.count for drop in self.lost),
            "of": self.count,
        }
        rows_missing = {drop.part: drop.count for drop in self.lost if drop.part is not None}
        self.protocol |= {"rows_missing": rows_missing} if rows_missing else {}
        dropped = [*(drop.as_json() for drop in self.lost), *predictions.data.get("dropped", ())]
        data = {**predictions.data, "external": record, "dropped": dropped}
        return super().completed(replace(predictions, data=data))
