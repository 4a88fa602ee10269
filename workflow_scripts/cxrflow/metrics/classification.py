"""Binary classification from scores, weighted so that one call also does a bootstrap.

Labels are 0/1, higher scores mean "positive", and an image is called positive when its score is
at or above the threshold. ``weights`` is ``[..., N]``: how often each sample counts (ones, or the
resampling counts of :mod:`cxrflow.metrics.intervals`); results have the leading shape. BioViL
(Tables 6 and A.2) sets the threshold where F1 is greatest; so do we by default, in every resample
anew, because choosing it is part of the method.
"""

from collections.abc import Collection
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats, ratio
from cxrflow.metrics.operating_points import Counts, OperatingPoints, Ranking, by_sample

# Where F1 or Matthews' correlation is greatest on the scored samples, or a score set beforehand.
ThresholdRule = Literal["best_f1", "best_mcc"] | float

AREAS = ("auroc", "average_precision")  # that need no threshold
AT_THRESHOLD = ("accuracy", "sensitivity", "specificity", "f1", "threshold", "balanced_accuracy")
BINARY = (*AREAS, *AT_THRESHOLD)


def roc_curve(points: OperatingPoints) -> tuple[Floats, Floats]:
    """False and true positive rates [K + 1] at all distinct scores, starting at (0, 0)."""
    false_rate = ratio(np.append(0, points.false_positives), points.negatives)
    true_rate = ratio(np.append(0, points.true_positives), points.positives)
    return false_rate, true_rate


def auroc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Area under the ROC curve (trapezoids, so ties count half); NaN with a single class.

    >>> from cxrflow.metrics import auroc
    >>> float(auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]))
    0.75
    """
    return binary_metrics(labels, scores, weights, names=["auroc"])["auroc"]


def _area(points: OperatingPoints) -> Floats:
    """Share of the pairs of a positive and a negative in the right order, ties half."""
    above = _dot(points.gained, points.false_positives)
    wrong = above - points.tied_pairs / 2
    pairs = points.positives * points.negatives
    return ratio(pairs - wrong, pairs)


def average_precision(points: OperatingPoints) -> Floats:
    """Sum over thresholds of precision times the recall gained there; NaN without any positive."""
    hits = points.true_positives.astype(np.float64)
    precision = np.nan_to_num(ratio(hits, hits + points.false_positives))
    return ratio(_dot(precision, points.gained), points.positives)


def _dot(first: Counts, second: Counts) -> Floats:
    """Sum of products down the thresholds."""
    return np.asarray(np.einsum("k...,k...->...", first, second, dtype=np.float64))


def at_threshold(points: OperatingPoints, rule: ThresholdRule = "best_f1") -> dict[str, Floats]:
    """Return accuracy, sensitivity, specificity, F1, their threshold, and balanced accuracy.

    Of several thresholds with equal merit the highest is used. NaN without any positive, or at a
    threshold of NaN. A score set beforehand must be among the points' (:meth:`Ranking.of`).
    """
    counts = (points.true_positives, points.false_positives)
    threshold: Any = rule
    if isinstance(rule, float):
        above = int((points.thresholds >= rule).sum())
        hits, alarms = (count[above - 1] if above else 0 * count[-1] for count in counts)
    else:
        best = np.argmax(_matthews(points) if rule == "best_mcc" else _half_f1(points), axis=0)
        hits, alarms = (np.take_along_axis(count, best[None], axis=0)[0] for count in counts)
        threshold = points.thresholds[best]
    positives, negatives = points.positives, points.negatives
    # Without positives F1 would be 0 and specificity a number: such a resample has no score at all.
    has_any = (positives > 0) & ~np.isnan(threshold)
    hits, alarms = (np.where(has_any, count, np.nan) for count in (hits, alarms))
    sensitivity = ratio(hits, positives)
    specificity = ratio(negatives - alarms, negatives)
    return {
        "accuracy": ratio(hits + negatives - alarms, positives + negatives),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "f1": ratio(2 * hits, hits + alarms + positives),
        "threshold": np.where(has_any, threshold, np.nan),
        "balanced_accuracy": (sensitivity + specificity) / 2,
    }


def _half_f1(points: OperatingPoints) -> Floats:
    """Half of F1 at every threshold; NaN or 0 without any positive."""
    hits = points.true_positives
    below = hits + points.false_positives
    below += hits[-1]
    with np.errstate(invalid="ignore"):
        return np.asarray(np.divide(hits, below, dtype=np.float64))


def _matthews(points: OperatingPoints) -> Floats:
    """Matthews' correlation at every threshold; 0 where all predictions or all labels agree."""
    hits, alarms = (
        count.astype(np.float64) for count in (points.true_positives, points.false_positives)
    )
    misses, rejections = points.positives - hits, points.negatives - alarms
    spread = (hits + alarms) * points.positives * points.negatives * (misses + rejections)
    return np.asarray((hits * rejections - alarms * misses) / np.sqrt(np.maximum(spread, 1)))


def metrics_at(
    points: OperatingPoints, rule: ThresholdRule = "best_f1", names: Collection[str] = BINARY
) -> dict[str, Floats]:
    """The metrics ``names`` of ``BINARY``, each at its own cost."""
    areas = {"auroc": _area, "average_precision": average_precision}
    metrics = {name: area(points) for name, area in areas.items() if name in names}
    if not set(names) <= set(AREAS):
        metrics |= at_threshold(points, rule)
    return {name: metric for name, metric in metrics.items() if name in names}


def binary_metrics(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None = None,
    rule: ThresholdRule = "best_f1",
    names: Collection[str] = BINARY,
) -> dict[str, Floats]:
    """AUROC, average precision and the scores of :func:`at_threshold`, by name.

    >>> from cxrflow.metrics import binary_metrics
    >>> scores = binary_metrics([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(scores["auroc"]), float(scores["sensitivity"])
    (0.75, 1.0)
    """
    ranking = Ranking.of(labels, scores, rule if isinstance(rule, float) else None)
    weight = np.ones(ranking.sums.shape[1]) if weights is None else np.asarray(weights)
    points = ranking.points(by_sample(weight.reshape(-1, weight.shape[-1])))
    metrics = metrics_at(points, rule, names)
    return {name: metric.reshape(weight.shape[:-1]) for name, metric in metrics.items()}
