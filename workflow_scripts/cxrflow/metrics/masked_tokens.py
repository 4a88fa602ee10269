"""Top-1 accuracy of masked-token prediction and its trivial baseline (BioViL section 4.2).

The baseline always answers the token most frequent among the targets of the training split: what
a model reaches that ignores the context.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def correct_predictions(logits: ArrayLike, targets: ArrayLike) -> NDArray[np.bool_]:
    """Whether the highest logit ``[M, V]`` is the target ``[M]``; a tie goes to the lower id."""
    return np.asarray(np.argmax(np.asarray(logits), axis=-1) == np.asarray(targets))


def token_counts(targets: ArrayLike, vocabulary_size: int) -> NDArray[np.int64]:
    """How often each token id ``[V]`` is a target; counts of batches may be added."""
    return np.bincount(np.asarray(targets, dtype=np.int64), minlength=vocabulary_size)


def most_frequent_token(counts: ArrayLike) -> int:
    """The id with the greatest count, the lowest of several; ValueError when all are 0."""
    numbers = np.asarray(counts)
    if not numbers.sum():
        raise ValueError("no targets were counted")
    return int(np.argmax(numbers))


def pooled_accuracy(
    correct: ArrayLike, total: ArrayLike, counts: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Share of targets predicted right over all sequences, each target counting once.

    ``correct`` and ``total`` are per sequence ``[N]``; ``counts`` ``[R, N]`` are resampling counts.
    """
    right, all_ = np.asarray(correct, np.float64), np.asarray(total, np.float64)
    weight = np.ones((1, len(right))) if counts is None else np.asarray(counts, np.float64)
    targets = weight @ all_
    return np.asarray((weight @ right) / np.where(targets > 0, targets, np.nan))
