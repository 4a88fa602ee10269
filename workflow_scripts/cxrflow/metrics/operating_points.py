"""Counts of true and false positives at the thresholds of a score, sorted once for all resamples.

A resample moves no score, so that one order serves all. Between two thresholds only sums of weights
matter: one sparse product gives them for all resamples at once. No threshold matters but those with
a positive: F1, Matthews' correlation and average precision only get worse by negatives, and along
a ROC curve negatives alone are a straight line.

Shapes: N samples, K thresholds, T of them with ties of both labels, R resamples.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from cxrflow.metrics.intervals import Floats

_WHOLE = 2**22  # below, sums of a few such whole numbers are exact in float32

Counts = NDArray[np.float32] | Floats


@dataclass(frozen=True)
class OperatingPoints:
    """Weighted counts at thresholds, from the highest down: [K], or [K, R] of resamples.

    Attributes:
        thresholds: [K].
        gained: positives at or above each threshold and below the one before.
        false_positives: negatives at or above each threshold; at the last one all.
        tied_pairs: of a positive and a negative with one score; a number, or [R].
    """

    thresholds: Floats
    gained: Counts
    false_positives: Counts
    tied_pairs: Floats

    @cached_property
    def true_positives(self) -> Counts:
        """Positives at or above each threshold."""
        return accumulate(self.gained.copy())

    @property
    def positives(self) -> Floats:
        """All of them; a number, or [R]."""
        return np.asarray(self.true_positives[-1], np.float64)

    @property
    def negatives(self) -> Floats:
        """All of them; a number, or [R]."""
        return np.asarray(self.false_positives[-1], np.float64)


@dataclass(frozen=True)
class Ranking:
    """Samples in the order of their scores, and their thresholds.

    Attributes:
        thresholds: [K], from the highest down.
        tied: [T], which of them are scores of both a positive and a negative.
        sums: sparse [2K + T, N], ones: the positives between each threshold and the one before, the
            negatives there, and the negatives at the ``tied`` scores.
    """

    thresholds: Floats
    tied: NDArray[np.int64]
    sums: Any = field(repr=False)

    @classmethod
    def of(
        cls,
        labels: ArrayLike,
        scores: ArrayLike,
        threshold: float | None = None,
        distinct: bool = False,
        counted: ArrayLike | None = None,
    ) -> "Ranking":
        """Sort samples.

        Args:
            threshold: whose counts are needed, besides those of scores.
            distinct: thresholds are all distinct scores, not only those with a positive.
            counted: which samples [N] count; None: all.

        Raises:
            ValueError: labels are not 0/1, or a score is not finite.
        """
        truth, values = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
        if truth.shape != values.shape or truth.ndim != 1:
            raise ValueError(f"labels {truth.shape} and scores {values.shape}: want equal [N]")
        places = np.arange(len(truth)) if counted is None else np.flatnonzero(counted)
        if not np.isin(truth[places], (0, 1)).all():
            raise ValueError("labels: want only 0 and 1")
        if not np.isfinite(values[places]).all():
            raise ValueError("scores: want only finite numbers")
        order = places[np.argsort(-values[places], kind="stable")]
        ordered, is_positive = values[order], truth[order] == 1
        # The last sample of each score, and the number of each sample's score.
        last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
        score_N = np.searchsorted(last, np.arange(len(ordered)))
        has_positive, has_negative = (
            np.bincount(score_N[side], minlength=len(last)) > 0
            for side in (is_positive, ~is_positive)
        )
        is_threshold = has_positive | distinct
        # Where as few as may be are called positive, and all: there a correlation may be 0.
        is_threshold[[0, -1]] = True
        if threshold is not None:
            is_threshold[max(int((ordered[last] >= threshold).sum()) - 1, 0)] = True
        is_tied = has_positive & has_negative
        tied = np.flatnonzero(is_tied[is_threshold])
        threshold_N = np.searchsorted(last[is_threshold], np.arange(len(ordered)))
        sides = (is_positive, ~is_positive, ~is_positive & is_tied[score_N])
        sizes = [np.bincount(threshold_N[side], minlength=is_threshold.sum()) for side in sides]
        starts = np.cumsum(np.concatenate([[0], *sizes[:2], sizes[2][tied]]))
        columns = np.concatenate([order[side] for side in sides])
        sums = sparse.csr_array(
            (np.ones(len(columns), np.float32), columns.astype(np.int32), starts.astype(np.int32)),
            shape=(len(starts) - 1, len(truth)),
        )
        return cls(ordered[last[is_threshold]], tied, sums)

    def points(self, weights_NR: Counts) -> OperatingPoints:
        """Counts [K, R] by weights of :func:`by_sample`."""
        ends = np.array([1, 2]) * len(self.thresholds)
        gained, lost, tied = np.split(self.sums @ weights_NR, ends)
        pairs = np.einsum("tr,tr->r", gained[self.tied], tied, dtype=np.float64)
        return OperatingPoints(self.thresholds, gained, accumulate(lost), pairs)


def operating_points(labels: ArrayLike, scores: ArrayLike) -> OperatingPoints:
    """Count true and false positives at each of the K distinct scores; weights are ones.

    Raises ValueError when labels are not 0/1, or a score is not finite.
    """
    ranking = Ranking.of(labels, scores, distinct=True)
    points = ranking.points(np.ones((ranking.sums.shape[1], 1)))
    gained, lost, tied = points.gained[:, 0], points.false_positives[:, 0], points.tied_pairs[0]
    return OperatingPoints(points.thresholds, gained, lost, np.asarray(tied))


def by_sample(weights: ArrayLike) -> Counts:
    """Weights [R, N] as rows [N, R] of samples, in float32 where that changes no sum."""
    rows = np.asarray(weights, np.float64)
    short = np.ascontiguousarray(rows.T, np.float32)
    is_exact = rows.sum(axis=1).max(initial=0) < _WHOLE and (rows == np.rint(rows)).all()
    return short if is_exact else np.ascontiguousarray(rows.T)


def accumulate(numbers_KR: Counts) -> Counts:
    """Running sums down the first axis, in place; numpy's goes column by column, past the cache."""
    size = math.isqrt(len(numbers_KR))
    even = len(numbers_KR) // size * size
    blocks = numbers_KR[:even].reshape(-1, size, *numbers_KR.shape[1:])
    for row in range(1, size):
        blocks[:, row] += blocks[:, row - 1]
    for block in range(1, len(blocks)):
        blocks[block] += blocks[block - 1, -1]
    for row in range(even, len(numbers_KR)):
        numbers_KR[row] += numbers_KR[row - 1]
    return numbers_KR
