"""The order samples are visited in: a pure function of seed and epoch, so nothing to save."""

import numpy as np

from cxrflow.errors import InputError


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of ``range(samples)`` for one epoch, int64 [samples]."""
    return np.random.default_rng([seed, epoch, samples]).permutation(samples)


def batch_rows(samples: int, batch_size: int, seed: int, epoch: int, index: int) -> np.ndarray:
    """Rows of batch ``index`` of an epoch; the incomplete last batch is left out.

    Contrastive objectives need whole batches. A data set smaller than one batch is one batch.
    """
    size = min(batch_size, samples)
    return epoch_order(samples, seed, epoch)[index * size : (index + 1) * size]


def batches_per_epoch(samples: int, batch_size: int) -> int:
    """Number of whole batches of an epoch."""
    return samples // min(batch_size, samples) if samples else 0


def contrastive_batches(samples: int, batch_size: int) -> list[np.ndarray]:
    """Whole batches of ``range(samples)`` in order, for validation with a contrastive objective.

    One sample has nothing to be told apart from: its loss would be zero whatever the model.
    """
    if samples < 2:
        raise InputError(
            f"the validation split has {samples} sample(s); contrastive objectives need at least 2"
        )
    size = min(batch_size, samples)
    return [np.arange(begin, begin + size) for begin in range(0, samples - size + 1, size)]


def share(rows: np.ndarray, rank: int, world: int) -> np.ndarray:
    """The part of a batch that process ``rank`` of ``world`` works on: neighbouring rows.

    Sizes differ by at most one; in the order of ranks the parts are ``rows`` again.
    """
    return np.array_split(rows, world)[rank]
