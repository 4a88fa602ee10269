"""The order samples are visited in: a pure function of seed and epoch, so nothing to save."""

from typing import TypeVar

import numpy as np

from cxrflow.errors import InputError

Batch = TypeVar("Batch")


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of ``range(samples)`` for one epoch, int64 [samples]."""
    return np.random.default_rng([seed, epoch, samples]).permutation(samples)


def contrastive_batches(samples: int, batch_size: int) -> list[np.ndarray]:
    """Whole batches of ``range(samples)``, for validation with a contrastive objective.

    Shuffled, always alike: a split's neighbours are studies of one patient, whose images are no
    fair negatives of each other, and training's batches are shuffled too. One sample has nothing
    to be told apart from: its loss would be zero whatever the model.
    """
    if samples < 2:
        raise InputError(
            f"the validation split has {samples} sample(s); contrastive objectives need at least 2"
        )
    size = min(batch_size, samples)
    order = epoch_order(samples, 0, 0)
    return [order[begin : begin + size] for begin in range(0, samples - size + 1, size)]


def even_batches(samples: int, batch_size: int) -> list[np.ndarray]:
    """All of ``range(samples)`` in batches whose sizes differ by at most one, for validation.

    For objectives that are means over single samples, in the order of :func:`contrastive_batches`.
    """
    number = -(-samples // batch_size)
    return np.array_split(epoch_order(samples, 0, 0), max(1, number))


def drawn_batches(batches: list[Batch], number: int | None) -> list[Batch]:
    """So many ``batches`` of a validation, the same ones every time and in order; None: all."""
    if number is None:
        return batches
    return [batches[place] for place in sorted(epoch_order(len(batches), 0, 0)[:number])]


def share(rows: np.ndarray, rank: int, world: int) -> np.ndarray:
    """The part of a batch that process ``rank`` of ``world`` works on: neighbouring rows.

    Sizes differ by at most one; in the order of ranks the parts are ``rows`` again.
    """
    return np.array_split(rows, world)[rank]
