"""Metrics of several classes: of each by itself, and their mean over the classes.

``labels`` [N, C] are 1, 0 or NaN (unknown: the sample does not count for that class), ``scores``
[N, C] are higher for "positive", ``counts`` [R, N] are the resampling counts of
:mod:`cxrflow.metrics.intervals`. A class that lacks one of its two labels in a resample has no
AUROC there (NaN), and the mean is over the others.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrflow.metrics.classification import ThresholdRule, binary_metrics
from cxrflow.metrics.intervals import Floats, ratio


def by_class(
    labels: ArrayLike, scores: ArrayLike, counts: Floats, rule: ThresholdRule = "best_f1"
) -> dict[str, Floats]:
    """The binary metrics of each class over the samples whose label is known: [R, C] by name; NaN
    where none is."""
    truth, values = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    each: list[dict[str, Floats] | None] = []
    for label_N, score_N in zip(truth.T, values.T, strict=True):
        known = np.isfinite(label_N)
        weights = counts if known.all() else counts[:, known]
        metrics = (
            binary_metrics(label_N[known], score_N[known], weights, rule) if known.any() else None
        )
        each.append(metrics)
    names = next(metrics for metrics in each if metrics is not None)
    unknown = np.full(len(counts), np.nan)
    return {
        name: np.stack([unknown if one is None else one[name] for one in each], axis=-1)
        for name in names
    }


def mean_of_classes(values: Floats, used: NDArray[np.bool_]) -> Floats:
    """Mean [R] over the classes [R, C] that are ``used`` [R, C]; NaN where none is."""
    number = used.sum(axis=-1)
    total = np.where(used, values, 0).sum(axis=-1)
    return ratio(total, number)
