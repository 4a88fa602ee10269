"""Boxes of findings that the synthetic hospital alone knows, as masks of stored images.

For a control: MedCutMix mixes these in place of the regions that its sentences attend to, which no
method can do better (ours).

Shapes: K images of S x S stored pixels.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.images.store import PixelStore

FILE = "TRUTH_BOXES.parquet"
COLUMNS = ("image_id", "observation", "x", "y", "width", "height")


class TrueBoxes:
    """The boxes in the images of a split's samples, which are ``rows`` of a store."""

    def __init__(self, folder: Path, store: PixelStore, rows: NDArray[np.int64]) -> None:
        self.size = store.size
        table = read_table(folder / FILE, COLUMNS)
        numbers = table[list(COLUMNS[2:])].apply(pd.to_numeric, errors="coerce")
        if not np.isfinite(numbers.to_numpy("float64", na_value=np.nan)).all():
            raise InputError(f"{folder / FILE}: a box holds what is no finite number")
        self.boxes: dict[tuple[int, str], list[NDArray[np.float64]]] = {}
        of_row = {str(store.index["image_id"].iloc[row]): int(row) for row in rows}
        for image, name, *box in table[list(COLUMNS)].itertuples(index=False):
            row = of_row.get(str(image))
            if row is not None:
                self.boxes.setdefault((row, name), []).append(np.array(box, dtype=np.float64))
        self.store, self.rows = store, rows

    def masks(self, samples: NDArray[np.int64], names: Sequence[str]) -> NDArray[np.uint8]:
        """Masks [K, S, S] of a finding in the image of each sample: 255 inside its boxes."""
        masks = np.zeros((len(samples), self.size, self.size), dtype=np.uint8)
        for mask, sample, name in zip(masks, samples, names, strict=True):
            row = int(self.rows[sample])
            boxes = self.boxes.get((row, name), [])
            for x, y, width, height in self.store.placement(row).boxes(boxes):
                ends = np.array([y, y + height, x, x + width]).round().clip(0, self.size)
                top, bottom, left, right = ends.astype(int)
                mask[top:bottom, left:right] = 255
        return masks
