"""Metrics of several classes: of each by itself, and their mean over the classes.

``labels`` [N, C] are 1, 0 or NaN (unknown: the sample does not count for that class), ``scores``
[N, C] are higher for "positive", ``counts`` [R, N] are the resampling counts of
:mod:`cxrflow.metrics.intervals`. A class that lacks one of its two labels in a resample has no
AUROC there (NaN). The classes of a mean are the same in every resample.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrflow.metrics.classification import ThresholdRule, binary_metrics
from cxrflow.metrics.intervals import Floats, ratio


def by_class(
    labels: ArrayLike,
    scores: ArrayLike,
    counts: Floats,
    rule: ThresholdRule | Sequence[float] = "best_f1",
) -> dict[str, Floats]:
    """Binary metrics of each class over its labelled samples: [R, C] by name; NaN without any.

    ``rule``: of all classes, or the threshold of each.
    """
    truth, values = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    one_rule = isinstance(rule, str | float)
    rules: Sequence[ThresholdRule] = [rule] * truth.shape[1] if one_rule else list(rule)  # type: ignore[arg-type, list-item]
    classes: list[dict[str, Floats] | None] = []
    for label_N, score_N, rule_of_class in zip(truth.T, values.T, rules, strict=True):
        labelled = np.isfinite(label_N)
        weights = counts if labelled.all() else counts[:, labelled]
        pair = (label_N[labelled], score_N[labelled])
        classes.append(binary_metrics(*pair, weights, rule_of_class) if labelled.any() else None)
    names = next(metrics for metrics in classes if metrics is not None)
    nan = np.full(len(counts), np.nan)
    return {
        name: np.stack([nan if scores_R is None else scores_R[name] for scores_R in classes], -1)
        for name in names
    }


def fixed_mean(values: Floats, observed: Floats, included: NDArray[np.bool_]) -> Floats:
    """Mean [R] of ``values`` [R, C] over the classes ``included`` [C]; NaN without any.

    A class without a value in a resample has its value ``observed`` [C] on all samples.
    """
    filled = np.where(np.isfinite(values), values, observed)
    total = np.where(included, filled, 0).sum(axis=-1)
    return ratio(total, included.sum(axis=-1))
