"""Accuracy, recall and F1 of predicted classes, weighted so that one call also does a bootstrap.

``counts`` [R, N] says how often each of the N samples counts (the resampling counts of
:mod:`cxrflow.metrics.intervals`; ones when left out); results are [R]. Used for natural language
inference (BioViL section 4.2, Table 3), whose metric is accuracy.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats, ratio


def accuracy(labels: ArrayLike, predictions: ArrayLike, counts: ArrayLike | None = None) -> Floats:
    """Share of the samples whose prediction is the label."""
    right = (np.asarray(labels) == np.asarray(predictions)).astype(np.float64)
    weight = _weight(counts, len(right))
    return np.asarray(weight @ right / weight.sum(axis=1))


def recalls(
    labels: ArrayLike,
    predictions: ArrayLike,
    names: Iterable[object],
    counts: ArrayLike | None = None,
) -> Floats:
    """Recall [R, C] of the classes ``names``; NaN in a resample without any of one.

    Their mean is balanced accuracy.
    """
    true, called = np.asarray(labels), np.asarray(predictions)
    weight = _weight(counts, len(true))
    found = []
    for name in names:
        total = weight @ (true == name).astype(np.float64)
        right = weight @ ((true == name) & (called == name)).astype(np.float64)
        found.append(ratio(right, total))
    return np.stack(found, axis=-1)


def class_f1(
    labels: ArrayLike, predictions: ArrayLike, name: object, counts: ArrayLike | None = None
) -> Floats:
    """F1 of one class against the others; NaN where it is neither a label nor a prediction."""
    true, called = np.asarray(labels) == name, np.asarray(predictions) == name
    weight = _weight(counts, len(true))
    both = weight @ (true & called)
    total = weight @ true.astype(np.float64) + weight @ called.astype(np.float64)
    return ratio(2 * both, total)


def _weight(counts: ArrayLike | None, size: int) -> Floats:
    return np.ones((1, size)) if counts is None else np.asarray(counts, np.float64)
