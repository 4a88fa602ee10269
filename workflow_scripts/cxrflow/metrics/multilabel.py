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
    """The binary metrics of each class over the samples whose label is known: [R, C] by name."""
    truth, values = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    each = []
    for label_N, score_N in zip(truth.T, values.T, strict=True):
        known = np.isfinite(label_N)
        weights = counts if known.all() else counts[:, known]
        each.append(binary_metrics(label_N[known], score_N[known], weights, rule))
    return {name: np.stack([found[name] for found in each], axis=-1) for name in each[0]}


def mean_of_classes(values: Floats, used: NDArray[np.bool_]) -> Floats:
    """Mean [R] over the classes [R, C] that are ``used`` [R, C]; NaN where none is."""
    number = used.sum(axis=-1)
    total = np.where(used, values, 0).sum(axis=-1)
    return ratio(total, number)
