"""Scores of all images with all texts in a file, of which memory holds a block at a time.

17,652 images and texts have 1.25 GB of scores in float32 (the test part of Windsor et al. 2023). A
file is written by blocks of images, and read by rows of images or of texts; the system keeps what
it has room for.

Shapes: N images and texts, B of a block.
"""

import tempfile

import numpy as np
from numpy.typing import NDArray

from cxrflow.metrics.pooled_auroc import BLOCK

Scores = NDArray[np.float32]


class ScoreFile:
    """The scores [image, text] of N images and texts; blocks are of ``BLOCK`` images."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as this object
        self._starts = range(0, count, BLOCK)

    def append(self, score_BN: Scores) -> None:
        """Write the next block, of ``BLOCK`` images unless it is the last."""
        self._file.write(np.ascontiguousarray(score_BN.T, dtype=np.float32).tobytes())

    def of_images(self, rows: slice) -> Scores:
        """Scores [B, N] of rows of images with all texts."""
        blocks = range(rows.start // BLOCK, -(-rows.stop // BLOCK))
        first = rows.start - blocks.start * BLOCK
        score_BN = np.concatenate([self._block(n, slice(0, self.count)).T for n in blocks])
        return score_BN[first : first + rows.stop - rows.start]

    def of_texts(self, rows: slice) -> Scores:
        """Scores [B, N] of rows of texts with all images."""
        return np.concatenate([self._block(n, rows) for n in range(len(self._starts))], axis=1)

    def pairs(self, place_N: NDArray[np.int64]) -> Scores:
        """Score [N] of each image with the text of this number."""
        scores = [
            self._block(n, slice(0, self.count))[place_N[start : start + BLOCK], np.arange(width)]
            for n, (start, width) in enumerate(zip(self._starts, self._widths(), strict=True))
        ]
        return np.concatenate(scores)

    def _widths(self) -> list[int]:
        return [min(BLOCK, self.count - start) for start in self._starts]

    def _block(self, number: int, texts: slice) -> Scores:
        """Scores [texts, B] of the images of a block with some texts."""
        width = self._widths()[number]
        size = np.dtype(np.float32).itemsize
        self._file.seek((number * BLOCK * self.count + texts.start * width) * size)
        values = self._file.read((texts.stop - texts.start) * width * size)
        return np.frombuffer(values, dtype=np.float32).reshape(-1, width)
