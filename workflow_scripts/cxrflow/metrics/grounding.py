"""Agreement of a map with an annotated region (BioViL sections 4.1, "Metrics", and 4.5).

Maps are given as finite ``values`` [..., P] that each stand for some pixels: ``inside`` [..., P] of
them are in the region, of ``total`` [..., P], which is 0 where the image has none. A grid brought
to an image by its nearest cell gives all pixels of a cell one value, so these counts are all that
matters: a grid of 32 x 32 takes the place of an image of 1024 x 1024, and the scores are the same.
:func:`of_pixels` is for maps of which each value is one pixel.

Leading axes are independent maps; results are float64 arrays of the leading shape, 0-d for one map.
Where nothing of the annotation is visible there is nothing to score: the result is NaN, which the
caller counts. The paper does not say what it does in these cases.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats


def of_pixels(similarity: ArrayLike, mask: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """``values``, ``inside`` and ``total`` of maps and masks [..., H, W].

    NaN is a pixel that the model did not see, outside its crop: it belongs to neither the inside
    nor the outside, and is ignored.
    """
    values = np.asarray(similarity, dtype=np.float64)
    region = np.asarray(mask, dtype=bool)
    if values.shape != region.shape or values.ndim < 2:
        raise ValueError(
            f"similarity {values.shape} and mask {region.shape}: want equal [..., H, W]"
        )
    visible = ~np.isnan(values)
    flat = (*values.shape[:-2], values.shape[-2] * values.shape[-1])
    inside, total = (each.astype(np.float64).reshape(flat) for each in (region & visible, visible))
    return np.where(visible, values, 0.0).reshape(flat), inside, total


def _moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted mean and population variance over the last axis; NaN where all weights are 0."""
    total = weights.sum(axis=-1)
    size = np.where(total > 0, total, np.nan)
    mean = (values * weights).sum(axis=-1) / size
    deviation = np.square(values - mean[..., None])
    return mean, (deviation * weights).sum(axis=-1) / size


def signed_cnr(values: Floats, inside: Floats, total: Floats) -> Floats:
    """(μ_A − μ_Ā) / sqrt(σ²_A + σ²_Ā); its absolute value is the CNR of BioViL section 4.1.

    A is the inside of the box union and Ā its outside, σ² population variances. No threshold; not
    changed by a linear rescaling of the map. NaN when the visible inside or outside is empty, or
    when neither has any variance (a constant map says nothing; two constant halves would be
    infinite and swamp every mean).

    The sign is not in the paper. Over uninformative maps the signed mean is 0, where that of the
    CNR is not; it is negative for maps that are dark where they should be bright.
    """
    mean_in, variance_in = _moments(values, inside)
    mean_out, variance_out = _moments(values, total - inside)
    # Rounding leaves ~1e-33 of variance in a constant map; compare with the map's own scale.
    scale = np.square(np.where(total > 0, values, 0.0)).max(axis=-1, initial=0.0)
    noise = variance_in + variance_out
    noise = np.where(noise > 1e-24 * np.maximum(scale, np.finfo(float).tiny), noise, np.nan)
    return np.asarray((mean_in - mean_out) / np.sqrt(noise))


def overlap(
    values: Floats, inside: Floats, total: Floats, threshold: float, missed: ArrayLike = 0
) -> tuple[Floats, Floats]:
    """Return IoU, and Dice ``2 |X∩Y| / (|X| + |Y|)``, of {value > threshold} and the region.

    ``missed``: pixels of the region outside the map (a crop), counted as not predicted; 0 ignores
    them. NaN when nothing is annotated.
    """
    predicted = values > threshold
    hits, size = (
        np.broadcast_to(pixels, predicted.shape).sum(axis=-1, where=predicted)
        for pixels in (inside, total)
    )
    annotated = inside.sum(axis=-1) + np.asarray(missed, dtype=np.float64)
    region = np.where(annotated > 0, annotated, np.nan)
    return np.asarray(hits / (region + size - hits)), np.asarray(2 * hits / (region + size))


def miou(
    values: Floats,
    inside: Floats,
    total: Floats,
    thresholds: Sequence[float],
    missed: ArrayLike = 0,
) -> Floats:
    """Mean IoU of :func:`overlap` over the thresholds (BioViL section 4.1: 0.1 to 0.5).

    A flat map has one, unlike a :func:`signed_cnr`: it lies above a threshold everywhere (IoU is
    the region's share of the visible pixels) or nowhere (0). An empty prediction scores 0 and
    stays in the mean; the paper does not mention it, and the published code has no IoU.
    """
    scores = [overlap(values, inside, total, threshold, missed)[0] for threshold in thresholds]
    return np.asarray(np.mean(scores, axis=0))


def rescale_minmax(similarity: ArrayLike, low: float = -1.0, high: float = 1.0) -> Floats:
    """Stretch each map to [low, high], BioViL Appendix A.3 (models with a local loss).

    NaN stays NaN; a constant map becomes the middle of the range.
    """
    values = np.asarray(similarity, dtype=np.float64)
    least = np.nanmin(values, axis=(-2, -1), keepdims=True)
    span = np.nanmax(values, axis=(-2, -1), keepdims=True) - least
    share = np.where(span > 0, (values - least) / np.where(span > 0, span, 1.0), 0.5)
    return np.asarray(np.where(np.isnan(values), np.nan, low + (high - low) * share))
