"""Overlap and contrast of maps with a region, from counts of pixels instead of pixels.

BioViL sections 4.1 ("Metrics") and 4.5: the scores of :mod:`cxrflow.metrics.grounding` where a
value of the map stands for many pixels. A grid brought to an image by its nearest cell gives all
pixels of a cell one value, so the cell's pixels inside and outside the region are all that counts:
the scores are the same, and a grid of 32 x 32 takes the place of an image of 1024 x 1024.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def _moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and population variance over the last axis; NaN where all weights are 0."""
    total = weights.sum(axis=-1)
    size = np.where(total > 0, total, np.nan)
    mean = (values * weights).sum(axis=-1) / size
    deviation = np.square(values - mean[..., None])
    return mean, (deviation * weights).sum(axis=-1) / size


def region_scores(
    values: ArrayLike,
    inside: ArrayLike,
    total: ArrayLike,
    threshold: float,
    missed: ArrayLike = 0,
) -> dict[str, Floats]:
    """``iou``, ``dice``, ``cnr`` and ``signed_cnr`` of maps, each of the leading shape.

    Args:
        values: ``[..., P]``, the maps; finite.
        inside: ``[..., P]`` pixels of the region that a value stands for.
        total: ``[..., P]`` all pixels that it stands for, 0 where the image has none.
        threshold: IoU and Dice are of {value > threshold}.
        missed: ``[...]`` pixels of the region that no value stands for and that count as not
            found, in IoU and Dice; 0 ignores them.

    NaN as in :mod:`cxrflow.metrics.grounding`: overlap where the region is empty, contrast where
    its seen inside or outside is, or where the map has no variance in either.
    """
    maps = np.asarray(values, dtype=np.float64)
    region, pixels = (np.asarray(one, dtype=np.float64) for one in (inside, total))
    if maps.shape[-1:] != pixels.shape[-1:] or pixels.shape[-1:] != region.shape[-1:]:
        raise ValueError(
            f"values {maps.shape}, inside {region.shape}, total {pixels.shape}: want equal [..., P]"
        )
    found = maps > threshold
    both = (region * found).sum(axis=-1)
    chosen = (pixels * found).sum(axis=-1)
    annotated = region.sum(axis=-1) + np.asarray(missed, dtype=np.float64)
    known = np.where(annotated > 0, annotated, np.nan)
    mean_in, variance_in = _moments(maps, region)
    mean_out, variance_out = _moments(maps, pixels - region)
    # As in `signed_cnr` there: what rounding leaves in a constant map is no variance.
    scale = np.square(np.where(pixels > 0, maps, 0.0)).max(axis=-1)
    noise = variance_in + variance_out
    noise = np.where(noise > 1e-24 * np.maximum(scale, np.finfo(float).tiny), noise, np.nan)
    signed = (mean_in - mean_out) / np.sqrt(noise)
    return {
        "iou": np.asarray(both / (known + chosen - both)),
        "dice": np.asarray(2 * both / (known + chosen)),
        "cnr": np.asarray(np.abs(signed)),
        "signed_cnr": np.asarray(signed),
    }
