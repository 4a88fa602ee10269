"""Index arithmetic on ragged arrays: lists of different lengths, end to end in one array."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def ranges(starts: Ints, counts: Ints) -> Ints:
    """``concatenate([arange(s, s + c) for s, c in zip(starts, counts)])`` without the loop."""
    ends = np.cumsum(counts)
    total = ends[-1] if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + counts, counts)


def offsets_of(counts: Ints) -> Ints:
    """Where each list starts, and where the last ends: ``[0, c0, c0 + c1, …]``."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
