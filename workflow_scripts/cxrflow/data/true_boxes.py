"""Boxes of findings that the synthetic hospital alone knows, and masks of them in stored images.

A measure of MedCutMix's regions reads them, and a control that mixes by them.

Shapes: K images of S x S stored pixels.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_hospital.truth import TABLES, read_truth
from cxrflow.images.store import PixelStore

BOX_COLUMNS = ("image_id", "observation", "x", "y", "width", "height")


def read_true_boxes(folder: Path) -> dict[tuple[str, str], list[list[float]]]:
    """The boxes x, y, width, height of each finding, by image and observation, in its pixels."""
    table = read_truth(folder, "boxes", BOX_COLUMNS)
    numbers = table[list(BOX_COLUMNS[2:])].apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(numbers.to_numpy("float64", na_value=np.nan)).all():
        raise InputError(f"{folder / TABLES['boxes'].file}: a box holds what is no finite number")
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
