"""The order samples are visited in: a pure function of seed and epoch, so nothing to save."""

import numpy as np


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
