"""Scores of all images with all texts, a block of rows at a time: memory never holds all pairs.

17,652 images and texts have 1.25 GB of scores in float32 (the test part of Windsor et al. 2023).
Those of vectors are a product for each block. Others are computed once, written to a file by
blocks of images and read by rows of images or of texts; the system keeps what it has room for.

Shapes: N images and texts, B of a block, T different texts, P width of vectors.
"""

import tempfile
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK = 256  # images of a block in the file
# Scores are whole multiples of a unit, so that equal pairs have equal scores however their sums
# were ordered: of cosines in float64, and of sums in float32.
COSINES, SUMS = 1e9, 1e5  # units in 1
_SMALLEST = np.finfo(np.float64).tiny


class Pairs(NamedTuple):
    """How all images compare with all texts; greater is nearer. ``units`` of a score of 1."""

    of_images: Callable[[slice], Floats]  # [B, N] of rows of images with all texts
    of_texts: Callable[[slice], Floats]  # [B, N] of rows of texts with all images
    chosen: Callable[[NDArray[np.int64]], Floats]  # [N] of each image with the text of this number
    units: float = COSINES


def by_vectors(image_NP: Floats, text_NP: Floats) -> Pairs:
    """Pairs by the cosine of vectors; 0 with one of length 0."""
    image_NP, text_NP = (
        vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _SMALLEST)
        for vectors in (image_NP, text_NP)
    )
    return Pairs(
        lambda rows: in_units(image_NP[rows] @ text_NP.T),
        lambda rows: in_units(text_NP[rows] @ image_NP.T),
        lambda number_N: in_units((image_NP * text_NP[number_N]).sum(axis=1)),
    )


def by_file(file: "ScoreFile", units: float = COSINES, more_N: Floats | None = None) -> Pairs:
    """Pairs of which a file has the scores; ``more_N`` units are added for each text."""
    added_N = np.zeros(file.count) if more_N is None else more_N
    return Pairs(
        lambda rows: in_units(file.of_images(rows), units) + added_N,
        lambda rows: in_units(file.of_texts(rows), units) + added_N[rows, None],
        lambda number_N: in_units(file.pairs(number_N), units) + added_N[number_N],
        units,
    )


def in_units(scores: NDArray[np.floating], units: float = COSINES) -> Floats:
    """The scores as whole multiples of 1 / ``units``."""
    multiples = scores.astype(np.float64, copy=False)
    np.multiply(multiples, units, out=multiples)
    return np.rint(multiples, out=multiples)


class ScoreFile:
    """The scores [image, text] of N images and texts; blocks are of ``BLOCK`` images."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as this object

    @classmethod
    def of(cls, batches: Iterable[NDArray[np.float32]], place_N: NDArray[np.int64]) -> "ScoreFile":
        """Write scores [B, T] with the different texts, of which each text is one, as they come."""
        file = cls(len(place_N))
        rows: list[NDArray[np.float32]] = []  # of images whose block is not full
        for score_BT in batches:
            rows.extend(score_BT)
            while len(rows) >= BLOCK:
                file.append(np.stack(rows[:BLOCK])[:, place_N])
                del rows[:BLOCK]
        if rows:
            file.append(np.stack(rows)[:, place_N])
        return file

    def append(self, score_BN: NDArray[np.float32]) -> None:
        """Write the next block, of ``BLOCK`` images unless it is the last."""
        block_NB = np.zeros((self.count, BLOCK), np.float32)
        block_NB[:, : len(score_BN)] = score_BN.T
        # Not through a map: a full disk would end the process instead of raising an error.
        self._file.write(block_NB.tobytes())

    @cached_property
    def _blocks(self) -> NDArray[np.float32]:
        """Scores [blocks, N, BLOCK] of all texts with the images of each block, as written."""
        self._file.flush()
        shape = (-(-self.count // BLOCK), self.count, BLOCK)
        return np.asarray(np.memmap(self._file, np.float32, "r", shape=shape))

    def of_images(self, rows: slice) -> NDArray[np.float32]:
        """Scores [B, N] of rows of images with all texts."""
        blocks = self._blocks[rows.start // BLOCK : -(-rows.stop // BLOCK)]
        first = rows.start % BLOCK
        score_BN = blocks.swapaxes(1, 2).reshape(-1, self.count)
        return score_BN[first : first + rows.stop - rows.start]

    def of_texts(self, rows: slice) -> NDArray[np.float32]:
        """Scores [B, N] of rows of texts with all images."""
        return np.concatenate(self._blocks[:, rows], axis=1)[:, : self.count]

    def pairs(self, number_N: NDArray[np.int64]) -> NDArray[np.float32]:
        """Score [N] of each image with the text of this number."""
        block_N, place_N = np.divmod(np.arange(self.count), BLOCK)
        return self._blocks[block_N, number_N, place_N]
