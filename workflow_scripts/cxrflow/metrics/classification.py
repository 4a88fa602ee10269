"""Binary classification from scores, weighted so that one call also does a bootstrap.

Labels are 0/1, higher scores mean "positive", and an image is called positive when its score is
at or above the threshold. ``weights`` is ``[..., N]``: how often each sample counts (ones, or the
resampling counts of :mod:`cxrflow.metrics.intervals`); results have the leading shape. BioViL
(Tables 6 and A.2) sets the threshold where F1 is greatest; so do we by default, in every resample
anew, because choosing it is part of the method.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats, ratio

# Where F1 or Matthews' correlation is greatest on the scored samples, or a score set beforehand.
ThresholdRule = Literal["best_f1", "best_mcc"] | float


@dataclass(frozen=True)
class OperatingPoints:
    """Weighted counts at every distinct score used as threshold, from the highest down."""

    thresholds: Floats  # [K]
    true_positives: Floats  # [..., K]
    false_positives: Floats  # [..., K]
    positives: Floats  # [..., 1]
    negatives: Floats  # [..., 1]


def operating_points(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> OperatingPoints:
    """Count true and false positives at each of the K distinct scores.

    Raises ValueError when labels are not 0/1, or a score is not finite.
    """
    truth = np.asarray(labels)
    values = np.asarray(scores, dtype=np.float64)
    if truth.shape != values.shape or truth.ndim != 1:
        raise ValueError(f"labels {truth.shape} and scores {values.shape}: want equal [N]")
    if not np.isin(truth, (0, 1)).all():
        raise ValueError("labels: want only 0 and 1")
    if not np.isfinite(values).all():
        raise ValueError("scores: want only finite numbers")
    weight = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    last_of_tie = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    sorted_weight = weight[..., order]
    hits = np.cumsum(sorted_weight * (truth[order] == 1), axis=-1)
    alarms = np.cumsum(sorted_weight * (truth[order] == 0), axis=-1)
    return OperatingPoints(
        thresholds=ordered[last_of_tie],
        true_positives=hits[..., last_of_tie],
        false_positives=alarms[..., last_of_tie],
        positives=hits[..., -1:],
        negatives=alarms[..., -1:],
    )


def roc_curve(points: OperatingPoints) -> tuple[Floats, Floats]:
    """False and true positive rates ``[..., K + 1]``, starting at (0, 0)."""
    start = np.zeros_like(points.positives)
    false_rate = ratio(np.append(start, points.false_positives, axis=-1), points.negatives)
    true_rate = ratio(np.append(start, points.true_positives, axis=-1), points.positives)
    return false_rate, true_rate


def auroc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Area under the ROC curve (trapezoids, so ties count half); NaN with a single class.

    >>> from cxrflow.metrics import auroc
    >>> float(auroc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]))
    0.75
    """
    return _area(operating_points(labels, scores, weights))


def _area(points: OperatingPoints) -> Floats:
    false_rate, true_rate = roc_curve(points)
    return np.asarray(np.trapezoid(true_rate, false_rate, axis=-1))


def average_precision(points: OperatingPoints) -> Floats:
    """Sum over thresholds of precision times the recall gained there; NaN without any positive."""
    hits = points.true_positives
    precision = ratio(hits, hits + points.false_positives)
    gained = ratio(np.diff(hits, axis=-1, prepend=0), points.positives)
    return np.asarray(np.where(gained == 0, 0, precision * gained).sum(axis=-1))


def at_threshold(points: OperatingPoints, rule: ThresholdRule = "best_f1") -> dict[str, Floats]:
    """Return accuracy, sensitivity, specificity, F1, their threshold, and balanced accuracy.

    Of several thresholds with equal merit the highest is used. NaN without any positive, or at a
    threshold of NaN.
    """
    if isinstance(rule, float):
        points = _at(points, rule)
    hits, alarms = points.true_positives, points.false_positives
    f1 = ratio(2 * hits, hits + alarms + points.positives)
    merit = _matthews(points) if rule == "best_mcc" else f1
    best = np.argmax(np.nan_to_num(merit, nan=-np.inf), axis=-1)[..., None]

    def chosen(values: Floats) -> Floats:
        return np.take_along_axis(values, best, axis=-1)[..., 0]

    correct, total = hits + points.negatives - alarms, points.positives + points.negatives
    # Without positives F1 would be 0 and specificity a number: such a resample has no score at all.
    has_any = (points.positives > 0) & ~np.isnan(points.thresholds).any()
    scores = {
        "accuracy": chosen(ratio(correct, np.where(has_any, total, 0))),
        "sensitivity": chosen(ratio(np.where(has_any, hits, np.nan), points.positives)),
        "specificity": chosen(
            ratio(np.where(has_any, points.negatives - alarms, np.nan), points.negatives)
        ),
        "f1": chosen(np.where(has_any, f1, np.nan)),
        "threshold": np.where(has_any[..., 0], points.thresholds[best[..., 0]], np.nan),
    }
    return scores | {"balanced_accuracy": (scores["sensitivity"] + scores["specificity"]) / 2}


def _at(points: OperatingPoints, threshold: float) -> OperatingPoints:
    """The counts at one threshold, which need not be a score."""
    above = int((points.thresholds >= threshold).sum())
    hits, alarms = (
        counts[..., above - 1 : above] if above else np.zeros_like(points.positives)
        for counts in (points.true_positives, points.false_positives)
    )
    return replace(
        points, thresholds=np.array([threshold]), true_positives=hits, false_positives=alarms
    )


def _matthews(points: OperatingPoints) -> Floats:
    """Matthews' correlation at every threshold; 0 where all predictions or all labels agree."""
    hits, alarms = points.true_positives, points.false_positives
    misses, rejections = points.positives - hits, points.negatives - alarms
    spread = (hits + alarms) * points.positives * points.negatives * (misses + rejections)
    return np.asarray((hits * rejections - alarms * misses) / np.sqrt(np.maximum(spread, 1)))


def binary_metrics(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None = None,
    rule: ThresholdRule = "best_f1",
) -> dict[str, Floats]:
    """AUROC, average precision and the scores of :func:`at_threshold`, by name.

    >>> from cxrflow.metrics import binary_metrics
    >>> scores = binary_metrics([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> float(scores["auroc"]), float(scores["sensitivity"])
    (0.75, 1.0)
    """
    points = operating_points(labels, scores, weights)
    areas = {"auroc": _area(points), "average_precision": average_precision(points)}
    return areas | at_threshold(points, rule)
