"""Scores of a map of pixels against an annotated region, one pair or many of one size.

The scores of :mod:`cxrflow.metrics.grounding`, for maps that have the size of their masks. Maps and
masks are [..., H, W] and results have the leading shape. NaN in a map is a pixel outside of what
the model saw; it does not count.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics import grounding
from cxrflow.metrics.intervals import Floats

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5)  # BioViL section 4.1


def cnr(similarity: ArrayLike, mask: ArrayLike) -> Floats:
    """Contrast-to-noise ratio ``|μ_in − μ_out| / sqrt(σ²_in + σ²_out)`` (BioViL section 4.1).

    NaN where the visible inside or outside of the mask is empty, or the map is constant in each.

    Raises:
        ValueError: maps and masks differ in shape.

    >>> from cxrflow.metrics import cnr
    >>> similarity = [[0.9, 0.7, 0.1], [0.8, 0.8, 0.3]]
    >>> mask = [[1, 1, 0], [1, 1, 0]]
    >>> round(float(cnr(similarity, mask)), 2)
    4.9
    """
    return np.abs(grounding.signed_cnr(*grounding.of_pixels(similarity, mask)))


def miou(
    similarity: ArrayLike, mask: ArrayLike, thresholds: Sequence[float] = THRESHOLDS
) -> Floats:
    """Mean intersection over union of {similarity > threshold} and the mask (BioViL section 4.1).

    NaN where nothing visible is annotated.

    Raises:
        ValueError: maps and masks differ in shape.

    >>> from cxrflow.metrics import miou
    >>> float(miou([[0.9, 0.6], [0.2, 0.1]], [[1, 1], [0, 0]], thresholds=[0.5]))
    1.0
    """
    return grounding.miou(*grounding.of_pixels(similarity, mask), thresholds)


def dice(similarity: ArrayLike, mask: ArrayLike, threshold: float) -> Floats:
    """Dice coefficient ``2|X∩Y| / (|X| + |Y|)`` of {similarity > threshold} and the mask.

    NaN where nothing visible is annotated.

    Raises:
        ValueError: maps and masks differ in shape.

    >>> from cxrflow.metrics import dice
    >>> round(float(dice([[0.9, 0.6], [0.7, 0.1]], [[1, 1], [0, 0]], threshold=0.5)), 3)
    0.8
    """
    return grounding.overlap(*grounding.of_pixels(similarity, mask), threshold)[1]
