"""Shares of the labels that heads learn from: their rows, and the names of their scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def share_rows(labels: NDArray[Any], fraction: float, seed: int) -> NDArray[np.int64]:
    """Rows of a share of the training images, at least one; the shares of one seed are nested.

    Of class numbers [N] each class gives its share, and at least one; labels [N, C] of classes that
    may occur together are drawn without regard to them.
    """
    strata = np.unique(labels) if labels.ndim == 1 else [0]
    chosen = []
    for label in strata:
        class_rows = np.flatnonzero(labels == label) if labels.ndim == 1 else np.arange(len(labels))
        count = max(1, round(fraction * len(class_rows)))
        chosen.append(
            class_rows[np.random.default_rng([seed, label]).permutation(len(class_rows))[:count]]
        )
    return np.sort(np.concatenate(chosen))


def share_of_images(images: int, fraction: float, seed: int) -> NDArray[np.int64]:
    """A share of ``range(images)``, at least one; the shares of one seed are nested."""
    count = max(1, round(fraction * images))
    return np.random.default_rng([seed, images]).permutation(images)[:count].astype(np.int64)


def percent(fraction: float) -> str:
    """Return a share of the labels as metric names have it, in per cent: 0.1 is ``10``."""
    return f"{100 * fraction:g}"


def score_column(share: str, seed: int) -> str:
    """The column of predictions.parquet that holds a run's scores (``/<class>`` of several)."""
    return f"score_{share}_seed{seed}"
