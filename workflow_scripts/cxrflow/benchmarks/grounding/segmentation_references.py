"""Reference rows of segmentation: the boxes of other patients, and brightness alone."""

import numpy as np
from numpy.typing import NDArray

from cxrflow.benchmarks.grounding.references import covered
from cxrflow.benchmarks.grounding.segmentation import predictions_of, read_splits
from cxrflow.benchmarks.grounding.segmentation_scores import ZERO_SHOT
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.inputs import Inputs, Pixels
from cxrflow.benchmarks.result import Predictions
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.grounding import rescale_minmax


def brightness(pixels: Pixels, image_ids: list[str], cells: int) -> NDArray[np.float64]:
    """Mean brightness [N, cells, cells] of each cell."""
    images = pixels.read(pixels.rows(image_ids)).astype(np.float64)
    step = images.shape[1] // cells
    return images.reshape(len(images), cells, step, cells, step).mean((2, 4))


def predict(name: str, inputs: Inputs, settings: SegmentationSettings) -> Predictions:
    """Score the maps of a reference row."""
    splits = read_splits(inputs, settings)
    geometry = Geometry.parse(str(inputs.pixels.geometry))
    train = (row for _, row in splits.train.iterrows())
    truths = np.stack([covered(row["boxes"], row, geometry) for row in train])
    if name == "mean_box":
        maps = np.repeat(truths.mean(0)[None], len(splits.test), 0)
    else:
        maps = brightness(inputs.pixels, splits.test["image_id"].tolist(), truths.shape[1])
    if settings.scale == "minmax":
        maps = rescale_minmax(maps, 0, 1)
    return predictions_of(inputs, splits, {ZERO_SHOT: maps[None]}, settings, {}, {})
