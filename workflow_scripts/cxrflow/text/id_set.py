"""A set of non-negative integers as a bitmap: 37 million PubMed ids in a few megabytes."""

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**32 - 1  # 512 MiB if such an id really comes; PubMed's are below 2^26


class IdSet:
    """Grows with the largest id; membership and insertion work on arrays."""

    def __init__(self) -> None:
        self._bits: NDArray[np.uint8] = np.zeros(1024, dtype=np.uint8)

    def add(self, ids: NDArray[np.int64]) -> None:
        """Put ``ids`` ``[N]`` in."""
        if not len(ids):
            return
        needed = int(ids.max()) // 8 + 1
        if needed > len(self._bits):
            grown = np.zeros(max(needed, 2 * len(self._bits)), dtype=np.uint8)
            grown[: len(self._bits)] = self._bits
            self._bits = grown
        np.bitwise_or.at(self._bits, ids >> 3, np.left_shift(1, ids & 7).astype(np.uint8))

    def contains(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """``[N]``: which of ``ids`` are in."""
        inside = (ids >> 3) < len(self._bits)
        bits = self._bits[np.where(inside, ids >> 3, 0)]
        return np.asarray(inside & ((bits >> (ids & 7).astype(np.uint8)) & 1).astype(bool))
