"""What the synthetic hospital alone knows of its images and reports.

Benchmarks compare with it, reference rows that answer by it are their ceilings, and one control of
MedCutMix mixes by its boxes. Nothing else may read it, and nothing reads it in another way.

Shapes: K images of S x S stored pixels.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.images.store import PixelStore

Kind = Literal["images", "boxes", "sentences", "states"]
FILES: dict[Kind, str] = {
    "images": "TRUTH.parquet",  # pose, and whether it is fit for use
    "boxes": "TRUTH_BOXES.parquet",  # of findings
    "sentences": "TRUTH_SENTENCES.parquet",  # that say a finding is present
    "states": "TRUTH_STATES.parquet",  # of studies; equal where all that is drawn is equal
}
BOX_COLUMNS = ("image_id", "observation", "x", "y", "width", "height")


def read_truth(folder: Path, kind: Kind, columns: Sequence[str]) -> pd.DataFrame:
    """A table of the folder of a drawn data set; InputError where it lacks one of ``columns``."""
    return read_table(folder / FILES[kind], tuple(columns))


def read_true_boxes(folder: Path) -> dict[tuple[str, str], list[list[float]]]:
    """The boxes x, y, width, height of each finding, by image and observation, in its pixels."""
    table = read_truth(folder, "boxes", BOX_COLUMNS)
    numbers = table[list(BOX_COLUMNS[2:])].apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(numbers.to_numpy("float64", na_value=np.nan)).all():
        raise InputError(f"{folder / FILES['boxes']}: a box holds what is no finite number")
    boxes: dict[tuple[str, str], list[list[float]]] = {}
    for image, name, *box in table[list(BOX_COLUMNS)].itertuples(index=False):
        boxes.setdefault((str(image), name), []).append([float(value) for value in box])
    return boxes


class TrueBoxMasks:
    """The boxes in the images of a split's samples, which are ``rows`` of a store."""

    def __init__(self, folder: Path, store: PixelStore, rows: NDArray[np.int64]) -> None:
        self.boxes, self.store, self.rows = read_true_boxes(folder), store, rows
        self.ids = store.index["image_id"].astype(str).to_numpy()

    def masks(self, samples: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.uint8]:
        """Masks [K, S, S] of a finding in the image of each sample: 255 inside its boxes."""
        size = self.store.size
        masks = np.zeros((len(samples), size, size), dtype=np.uint8)
        for mask, sample, name in zip(masks, samples, names, strict=True):
            row = int(self.rows[sample])
            boxes = self.boxes.get((self.ids[row], name), [])
            for x, y, width, height in self.store.placement(row).boxes(boxes):
                ends = np.array([y, y + height, x, x + width]).round().clip(0, size)
                top, bottom, left, right = ends.astype(int)
                mask[top:bottom, left:right] = 255
        return masks
