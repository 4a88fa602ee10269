"""How well a similarity map finds an annotated region (BioViL section 4.1, "Metrics").

All functions take arrays of shape ``[..., H, W]`` (leading axes are independent maps) and return
float64 arrays of the leading shape, 0-d for one map. ``NaN`` in a similarity map means "not seen
by the model" (outside its crop): such pixels belong to neither the inside nor the outside, and
are ignored. Where nothing of the annotation is visible there is nothing to score: the result is
``NaN``, which the caller counts. The paper does not say what it does in these cases.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

MIOU_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)  # BioViL section 4.1

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def _maps(similarity: ArrayLike, mask: ArrayLike) -> tuple[Floats, Bools, Bools]:
    """The map with 0 where unseen, the visible inside, the visible outside."""
    values = np.asarray(similarity, dtype=np.float64)
    region = np.asarray(mask, dtype=bool)
    if values.shape != region.shape or values.ndim < 2:
        raise ValueError(
            f"similarity {values.shape} and mask {region.shape}: want equal [..., H, W]"
        )
    seen = ~np.isnan(values)
    return np.where(seen, values, 0.0), region & seen, ~region & seen


def _moments(values: Floats, where: Bools) -> tuple[Floats, Floats]:
    """Mean and population variance of ``values`` over ``where``; NaN where it is empty."""
    count = where.sum(axis=(-2, -1))
    size = np.where(count, count, np.nan)
    mean = np.where(where, values, 0.0).sum(axis=(-2, -1)) / size
    deviation = np.where(where, values - mean[..., None, None], 0.0)
    return mean, np.square(deviation).sum(axis=(-2, -1)) / size


def signed_cnr(similarity: ArrayLike, mask: ArrayLike) -> Floats:
    """(μ_A − μ_Ā) / sqrt(σ²_A + σ²_Ā): :func:`cnr` before its absolute value.

    Not in the paper. Its mean is 0 for a map that knows nothing, where that of ``cnr`` is not, and
    it is negative for a map that is dark where it should be bright.
    """
    values, inside, outside = _maps(similarity, mask)
    mean_in, variance_in = _moments(values, inside)
    mean_out, variance_out = _moments(values, outside)
    # Rounding leaves ~1e-33 of variance in a constant map; compare with the map's own scale.
    scale = np.square(values).max(axis=(-2, -1)) if values.size else np.zeros(values.shape[:-2])
    noise = variance_in + variance_out
    noise = np.where(noise > 1e-24 * np.maximum(scale, np.finfo(float).tiny), noise, np.nan)
    return np.asarray((mean_in - mean_out) / np.sqrt(noise))


def cnr(similarity: ArrayLike, mask: ArrayLike) -> Floats:
    """Contrast-to-noise ratio, BioViL section 4.1: |μ_A − μ_Ā| / sqrt(σ²_A + σ²_Ā).

    A is the inside of the box union and Ā its outside, σ² population variances. No threshold; not
    changed by a linear rescaling of the map. NaN when the visible inside or outside is empty, or
    when neither has any variance (a constant map says nothing; two constant halves would be
    infinite and swamp every mean).
    """
    return np.asarray(np.abs(signed_cnr(similarity, mask)))


def _overlap(
    similarity: ArrayLike, mask: ArrayLike, threshold: float, missed: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Pixels in both, in the prediction (similarity > threshold), in the annotation."""
    values, inside, outside = _maps(similarity, mask)
    found = (values > threshold) & (inside | outside)
    both = (found & inside).sum(axis=(-2, -1)).astype(np.float64)
    annotated = inside.sum(axis=(-2, -1)) + np.asarray(missed, dtype=np.float64)
    return both, found.sum(axis=(-2, -1)).astype(np.float64), annotated


def iou(similarity: ArrayLike, mask: ArrayLike, threshold: float, missed: ArrayLike = 0) -> Floats:
    """Intersection over union of {similarity > threshold} and the mask.

    ``missed`` is a number of annotated pixels that the map could not see and that shall count as
    not found; 0 ignores them. NaN when nothing is annotated.
    """
    both, found, annotated = _overlap(similarity, mask, threshold, missed)
    union = found + annotated - both
    return np.asarray(both / np.where(annotated > 0, union, np.nan))


def dice(similarity: ArrayLike, mask: ArrayLike, threshold: float, missed: ArrayLike = 0) -> Floats:
    """Dice score 2|X∩Y| / (|X| + |Y|) of {similarity > threshold} and the mask; see :func:`iou`."""
    both, found, annotated = _overlap(similarity, mask, threshold, missed)
    return np.asarray(2 * both / np.where(annotated > 0, found + annotated, np.nan))


def miou(
    similarity: ArrayLike,
    mask: ArrayLike,
    thresholds: Sequence[float] = MIOU_THRESHOLDS,
    missed: ArrayLike = 0,
) -> Floats:
    """Mean of :func:`iou` over the thresholds, BioViL section 4.1: 0.1, 0.2, 0.3, 0.4, 0.5."""
    scores = [iou(similarity, mask, threshold, missed) for threshold in thresholds]
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
