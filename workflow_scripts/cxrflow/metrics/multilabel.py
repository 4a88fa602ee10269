"""Metrics of several classes: of each by itself, and their mean over the classes.

``labels`` [N, C] are 1, 0 or NaN (unknown: the sample does not count for that class), ``scores``
[N, C] are higher for "positive", ``counts`` [R, N] are the resampling counts of
:mod:`cxrflow.metrics.intervals`. A class that lacks one of its two labels in a resample has no
AUROC there (NaN). The classes of a mean are the same in every resample.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxrflow.metrics.classification import BINARY, ThresholdRule, metrics_at
from cxrflow.metrics.intervals import Floats, ratio
from cxrflow.metrics.operating_points import Ranking, by_sample


def by_class(
    labels: ArrayLike,
    scores: ArrayLike,
    rule: ThresholdRule | Sequence[float] = "best_f1",
    names: Collection[str] = BINARY,
) -> Callable[[Floats], dict[str, Floats]]:
    """Sort each class's labelled samples; of counts, the metrics [R, C] by name.

    NaN for a class without any label. ``rule``: of all classes, or the threshold of each.
    """
    truth, values = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    one_rule = isinstance(rule, str | float)
    rules: Sequence[ThresholdRule] = [rule] * truth.shape[1] if one_rule else list(rule)  # type: ignore[arg-type, list-item]
    classes = []
    for label_N, score_N, of_class in zip(truth.T, values.T, rules, strict=True):
        labelled, threshold = (
            np.isfinite(label_N),
            of_class if isinstance(of_class, float) else None,
        )
        classes.append(
            Ranking.of(label_N, score_N, threshold, counted=labelled) if labelled.any() else None
        )

    def metrics(counts: Floats) -> dict[str, Floats]:
        weights_NR, nan = by_sample(counts), np.full(len(counts), np.nan)
        each = [
            {} if ranking is None else metrics_at(ranking.points(weights_NR), of_class, names)
            for ranking, of_class in zip(classes, rules, strict=True)
        ]
        return {n: np.stack([of_class.get(n, nan) for of_class in each], -1) for n in names}

    return metrics


def fixed_mean(values: Floats, observed: Floats, included: NDArray[np.bool_]) -> Floats:
    """Mean [R] of ``values`` [R, C] over the classes ``included`` [C]; NaN without any.

    A class without a value in a resample has its value ``observed`` [C] on all samples.
    """
    filled = np.where(np.isfinite(values), values, observed)
    total = np.where(included, filled, 0).sum(axis=-1)
    return ratio(total, included.sum(axis=-1))
