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
    """Binary metrics of each class over its labelled samples: [R, C] by name; NaN without any."""
    truth, values = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    classes: list[dict[str, Floats] | None] = []
    for label_N, score_N in zip(truth.T, values.T, strict=True):
        labelled = np.isfinite(label_N)
        weights = counts if labelled.all() else counts[:, labelled]
        pair = (label_N[labelled], score_N[labelled])
        classes.append(binary_metrics(*pair, weights, rule) if labelled.any() else None)
    names = next(metrics for metrics in classes if metrics is not None)
    nan = np.full(len(counts), np.nan)
    return {
        name: np.stack([nan if scores_R is None else scores_R[name] for scores_R in classes], -1)
        for name in names
    }


def mean_of_classes(values: Floats, included: NDArray[np.bool_]) -> Floats:
    """Mean [R] of ``values`` [R, C] over the classes ``included`` [R, C]; NaN without any."""
    number = included.sum(axis=-1)
    total = np.where(included, values, 0).sum(axis=-1)
    return ratio(total, number)
