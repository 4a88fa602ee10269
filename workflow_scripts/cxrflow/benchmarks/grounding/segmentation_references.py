"""What segments pneumonia without a model: the boxes of other patients, or brightness alone."""

from argparse import Namespace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.settings import SegmentationSettings
from cxrflow.benchmarks.grounding.patches import COLUMNS, images_with_boxes, one_box_each
from cxrflow.benchmarks.grounding.references import covered
from cxrflow.benchmarks.grounding.segmentation_scores import (
    ZERO_SHOT,
    columns_of,
    score_samples,
    summarise,
)
from cxrflow.benchmarks.inputs import Pixels, choose_split, data_fingerprint, read_cohort
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
    """What ``cxrflow.benchmarks.score_reference`` calls."""
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS)
    pixels: Pixels = PixelStore(options.pixels)
    source = Path(options.cohort) / "samples.parquet"
    parts = {}
    dropped = []
    for split in (settings.train_split, settings.split):
        parts[split], lost = images_with_boxes(choose_split(cohort.table, split, source), pixels)
        dropped += [{**one, "part": split} for one in lost]
    train, test = parts[settings.train_split], parts[settings.split]
    geometry = Geometry.parse(str(pixels.geometry))
    truths = np.stack([covered(row["boxes"], row, geometry) for _, row in train.iterrows()])
    if name == "mean_box":
        maps = np.repeat(truths.mean(0)[None], len(test), 0)
    else:
        maps = brightness(pixels, test["image_id"].tolist(), truths.shape[1])
    if settings.scale == "minmax":
        maps = rescale_minmax(maps, 0, 1)
    test = test.assign(row=np.arange(len(test)))
    samples = one_box_each(test) if settings.unit == "box" else test
    known, scores = score_samples({ZERO_SHOT: maps[None]}, samples, geometry, settings)
    predictions = known.assign(**columns_of(scores, settings.probe_seeds))
    protocol = settings.model_dump(mode="json", exclude={"encoder_batch_size", "device"})
    protocol |= {"geometry": str(geometry), "grid": list(maps.shape[1:])}
    protocol |= {
        "boxes": "each by itself" if settings.unit == "box" else "union of an image's boxes"
    }
    data = {
        **cohort.data,
        "fingerprint": data_fingerprint(cohort, pixels),
        "samples": len(samples),
        "images": len(test),
        "train_images": len(train),
        "dropped": dropped,
    }
    return Result("segmentation", data, protocol, summarise(predictions, settings), predictions)
