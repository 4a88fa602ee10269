"""One ROC curve over the similarities of all pairs of images and texts (Windsor et al. 2023, 3).

An image and its own text are a positive pair, all N^2 - N remaining pairs are negative; one
threshold serves them all, ties count half. The scores come block by block, first of images with
all texts, then of texts with all images, so memory holds a block of rows, never N x N.

The area is a mean over positives and negatives at once, and a patient's studies take part in both:
as positives, as images and as texts of negatives. Study n's *share* is::

    own(n) + as_image(n) + as_text(n) - 2 A

``own`` is the mean over all negatives for its positive, ``as_image`` and ``as_text`` over all
positives for its negatives, and A the area, which is the mean of the shares. To first order a
resample of studies changes the area as it changes this mean (the infinitesimal jackknife), so
intervals of a mean over patients are intervals of the area (coverage: docs/inference.md).

Shapes: N studies, B of a block, X kinds of positives, Q thresholds, T of them with ties.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxrflow.metrics.intervals import Floats, ratio
from cxrflow.metrics.retrieval import ranks_of

#: Scores [B, N] of some queries, images or texts, with all candidates of the other kind.
Scores = Callable[[slice], Floats]

BLOCK = 256  # queries at once: 36 MB of N = 17,652


class Searched(NamedTuple):
    """N queries, each of which searched all candidates.

    Attributes:
        below_XN: share of all negatives below the positive of study n; ties half.
        above_XN: share of the positives above the negatives of query n; ties half.
        rank_N: of the own candidate among those of different texts, from 1 on; ties their mean.
        rivals_N: number of the candidates of different texts.
    """

    below_XN: Floats
    above_XN: Floats
    rank_N: Floats
    rivals_N: Floats

    @property
    def area_N(self) -> Floats:
        """AUROC of each query: its own candidate against those of different texts."""
        return 1 - ratio(self.rank_N - 1, self.rivals_N)

    def recall(self, cutoff: int) -> Floats:
        """Whether the own candidate of each query is among the first ``cutoff``."""
        return (self.rank_N <= cutoff).astype(np.float64)


def search(
    scores: Scores, positives_XN: Floats, texts_N: NDArray[np.int64], block: int = BLOCK
) -> Searched:
    """Compare the scores of all queries with the positives, block by block.

    Args:
        scores: of rows of queries; the own candidate of query n is candidate n.
        positives_XN: the first row has the score of each study's own image and text; further rows
            have pairs that take their place, for a control.
        texts_N: numbers of the texts, equal where texts are.
    """
    kinds, count = positives_XN.shape
    order_XN = np.argsort(positives_XN, axis=1, kind="stable")
    sorted_XN = np.take_along_axis(positives_XN, order_XN, axis=1)
    ordered_XN, above_XN = np.zeros((kinds, count)), np.empty((kinds, count))
    rank_N, rivals_N = np.empty(count), np.empty(count)
    for rows in _blocks(count, block):
        scores_BN = scores(rows)
        rivals_BN = texts_N[rows, None] != texts_N
        rivals_N[rows] = rivals_BN.sum(axis=1)
        rank_N[rows] = ranks_of(scores_BN, positives_XN[0, rows], rivals_BN)
        numbers = np.arange(count)[rows]
        scores_BN[np.arange(len(numbers)), numbers] = np.inf  # no negative: below no positive
        scores_BN.sort(axis=1)
        for number, scores_N in zip(numbers, scores_BN, strict=True):
            for kind, sorted_N in enumerate(sorted_XN):
                below_N = _count_below(scores_N, sorted_N)
                ordered_XN[kind] += below_N
                above_XN[kind, number] = below_N.sum()
    below_XN = np.empty((kinds, count))
    np.put_along_axis(below_XN, order_XN, ordered_XN, axis=1)
    pairs = count * (count - 1)
    return Searched(below_XN / pairs, above_XN / pairs, rank_N, rivals_N)


def _count_below(scores_N: Floats, thresholds_Q: Floats) -> Floats:
    """Number [Q] of scores below each threshold, ties half; all sorted, the last is infinite."""
    lower_Q = scores_N.searchsorted(thresholds_Q)
    ties_T = np.flatnonzero(scores_N[lower_Q] == thresholds_Q)
    below_Q = lower_Q.astype(np.float64)
    below_Q[ties_T] += scores_N.searchsorted(thresholds_Q[ties_T], "right")
    below_Q[ties_T] /= 2
    return below_Q


def shares(images: Searched, texts: Searched) -> Floats:
    """Shares [X, N] of the studies in the areas, whose means are the areas.

    Args:
        images: that searched all texts.
        texts: that searched all images.
    """
    area_X1 = images.below_XN.mean(axis=1, keepdims=True)
    return images.below_XN + images.above_XN + texts.above_XN - 2 * area_X1


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
