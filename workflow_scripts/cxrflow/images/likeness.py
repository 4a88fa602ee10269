"""Whether two files show one radiograph, whatever their format, size and names.

A *likeness* [3, 256] is an image at 16 x 16 cells: as it is, without borders of one value, and the
central square of that. So a copy may be resized, stretched, padded to a square, or cut to one. Each
part has mean 0 and length 1. The product of two parts is their correlation, which no change of
brightness or contrast moves; that of two images is the greatest of any of their parts.

Of 118 radiographs of a public collection and their copies in another edition, resized and
compressed anew, the least alike have 0.9999. Of the 36 million pairs of two public collections the
most alike that are no copies have 0.988, two exposures of a patient on one day; of 14 million pairs
of different patients of the synthetic hospital 0.991. More pairs will have a little more, so
``LEAST`` is nearer to the copies.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cxrflow.images.resize import resize

CELLS, PARTS = 16, 3
LEAST, COARSE_LEAST = 0.998, 0.985  # correlation at 16 x 16 cells, and at 8 x 8 before it
ROWS = 2048  # of either side in one product
_FLAT = 0.02  # of the range of values: a border line that deviates less has no content

Floats = NDArray[np.floating]


class Alike(NamedTuple):
    """Two images, by their places, and their correlation."""

    first: int
    second: int
    correlation: float


def likeness(values: NDArray) -> Floats:
    """Return the likeness [3, 256] of an image [H, W] of any number type."""
    flat = _FLAT * (float(values.max()) - float(values.min()))
    slices = []
    for axis in (1, 0):  # without lines at the borders that are of one value
        lines = np.flatnonzero(values.std(axis=axis, dtype=np.float32) > flat)
        slices.append(slice(lines[0], lines[-1] + 1) if len(lines) >= CELLS else slice(None))
    content = values[slices[0], slices[1]]
    side = min(content.shape)
    top, left = ((length - side) // 2 for length in content.shape)
    parts = (values, content, content[top : top + side, left : left + side])
    return np.stack([_unit(resize(part, CELLS, CELLS).ravel()) for part in parts])


def alike(first: Floats, second: Floats | None = None) -> Iterator[Alike]:
    """Yield the pairs of images that are alike, of two sets [N, 3, 256] and [M, 3, 256].

    Without ``second`` the pairs within the first, each once.
    """
    targets = first if second is None else second
    coarse, coarse_others = _coarse(first), _coarse(targets)
    for start in range(0, len(first), ROWS):
        for target_start in range(0 if second is not None else start, len(targets), ROWS):
            block, against = (
                coarse[start : start + ROWS],
                coarse_others[target_start : target_start + ROWS],
            )
            near = np.zeros((len(block), len(against)), dtype=bool)
            for part_of_first, part_of_target in product(range(PARTS), repeat=2):
                near |= block[:, part_of_first] @ against[:, part_of_target].T >= COARSE_LEAST
            for i, j in np.argwhere(near) + (start, target_start):
                if second is None and j <= i:
                    continue
                best = float((first[i].astype(np.float32) @ targets[j].astype(np.float32).T).max())
                if best >= LEAST:
                    yield Alike(int(i), int(j), best)


def pictures(digests: NDArray, likenesses: Floats) -> NDArray[np.int64]:
    """Return a number for each image: equal ones have one digest, or are alike, or through others.

    Args:
        digests: of files or pixels [N]. Of a placeholder under thousands of names there would be
            too many pairs, so images of one digest count once.
        likenesses: [N, 3, 256].
    """
    _, first, same = np.unique(digests, return_index=True, return_inverse=True)
    pairs = [pair[:2] for pair in alike(likenesses[first])]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(pairs)), (ends[0], ends[1])), shape=(len(first), len(first)))
    numbers: NDArray[np.int64] = connected_components(graph, directed=False)[1][same]
    return numbers


def _unit(vector: NDArray) -> Floats:
    """The vector with mean 0 and length 1; zeros where it is of one value."""
    centred = vector - vector.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)


def _coarse(likenesses: Floats) -> Floats:
    """The same at 8 x 8 cells [N, 3, 64]."""
    shape = (*likenesses.shape[:2], CELLS // 2, 2, CELLS // 2, 2)
    cells = likenesses.astype(np.float32).reshape(shape).mean(axis=(3, 5))
    return _unit(cells.reshape(*likenesses.shape[:2], (CELLS // 2) ** 2))
