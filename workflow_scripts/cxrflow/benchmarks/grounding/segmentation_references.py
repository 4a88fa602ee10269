"""What segments pneumonia without a model: the boxes of other patients, or brightness alone."""

from argparse import Namespace

import numpy as np
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.settings import SegmentationSettings
from cxrflow.benchmarks.grounding.patches import COLUMNS
from cxrflow.benchmarks.grounding.references import covered
from cxrflow.benchmarks.grounding.segmentation import make_result, read_parts
from cxrflow.benchmarks.grounding.segmentation_scores import ZERO_SHOT
from cxrflow.benchmarks.inputs import Pixels, read_cohort
from cxrflow.benchmarks.result import Result
from cxrflow.images.geometry import Geometry
from cxrflow.images.store import PixelStore
from cxrflow.metrics.grounding import rescale_minmax


def brightness(pixels: Pixels, image_ids: list[str], cells: int) -> NDArray[np.float64]:
    """Mean brightness [N, cells, cells] of each cell."""
    images = pixels.read(pixels.rows(image_ids)).astype(np.float64)
    step = images.shape[1] // cells
    return images.reshape(len(images), cells, step, cells, step).mean((2, 4))


def score_reference(name: str, options: Namespace, settings: SegmentationSettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS)
    pixels: Pixels = PixelStore(options.pixels)
    parts = read_parts(cohort, options.cohort, pixels, settings)
    geometry = Geometry.parse(str(pixels.geometry))
    truths = np.stack([covered(row["boxes"], row, geometry) for _, row in parts.train.iterrows()])
    if name == "mean_box":
        maps = np.repeat(truths.mean(0)[None], len(parts.test), 0)
    else:
        maps = brightness(pixels, parts.test["image_id"].tolist(), truths.shape[1])
    if settings.scale == "minmax":
        maps = rescale_minmax(maps, 0, 1)
    return make_result(cohort, parts, pixels, {ZERO_SHOT: maps[None]}, settings, {}, {})
