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
    """Share of the samples whose prediction is the label.

    >>> from cxrflow.metrics import accuracy
    >>> accuracy(["yes", "no"], ["yes", "yes"]).tolist()
    [0.5]
    """
    correct = (np.asarray(labels) == np.asarray(predictions)).astype(np.float64)
    weight = _weight(counts, len(correct))
    return np.asarray(weight @ correct / weight.sum(axis=1))


def recalls(
    labels: ArrayLike,
    predictions: ArrayLike,
    names: Iterable[object],
    counts: ArrayLike | None = None,
) -> Floats:
    """Recall [R, C] of the classes ``names``; NaN for a class that a resample lacks.

    Their mean is balanced accuracy.

    >>> from cxrflow.metrics import recalls
    >>> recalls(["yes", "no", "no"], ["yes", "yes", "no"], ["yes", "no"]).tolist()
    [[1.0, 0.5]]
    """
    target, predicted = np.asarray(labels), np.asarray(predictions)
    weight = _weight(counts, len(target))
    recalls_by_class = []
    for name in names:
        total = weight @ (target == name).astype(np.float64)
        hits = weight @ ((target == name) & (predicted == name)).astype(np.float64)
        recalls_by_class.append(ratio(hits, total))
    return np.stack(recalls_by_class, axis=-1)


def class_f1(
    labels: ArrayLike, predictions: ArrayLike, name: object, counts: ArrayLike | None = None
) -> Floats:
    """F1 of one class against the others; NaN where it is neither a label nor a prediction.

    >>> from cxrflow.metrics import class_f1
    >>> class_f1(["yes", "no", "no"], ["yes", "yes", "no"], "yes").round(3).tolist()
    [0.667]
    """
    target, predicted = np.asarray(labels) == name, np.asarray(predictions) == name
    weight = _weight(counts, len(target))
    hits = weight @ (target & predicted)
    total = weight @ target.astype(np.float64) + weight @ predicted.astype(np.float64)
    return ratio(2 * hits, total)


def _weight(counts: ArrayLike | None, size: int) -> Floats:
    return np.ones((1, size)) if counts is None else np.asarray(counts, np.float64)
