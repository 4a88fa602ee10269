"""The one resampler of the project: antialiased bilinear, one axis after the other.

It is the filter of Pillow and of torch (a triangle as wide as two pixels of the result), which the
authors' public image reader uses, on whole numbers as stored, so that nothing is rounded before
the end. Weights are whole multiples of 2^-18. So every sum over values of up to 16 bits is exact in
float64, and no order of summation, that is, no processor, library or number of threads, can change
a bit of the result; it lies within 1e-4 of the values' range of the filter with unrounded weights.

Each axis is a product with a matrix that is zero but for a band. ``OUTPUTS`` lines of the result at
a time need few lines of the input, so small dense products leave out nearly all of the zeros.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

#: Weights are multiples of 2 to the minus this: 16 bits of value and two weights fit 53 bits.
WEIGHT_BITS = 18

#: Lines of the result that one product makes, and that are made from one piece of the input.
OUTPUTS, PIECE = 4, 16

Block = tuple[int, int, int, NDArray[np.float64]]  # first output, input lines from, to, weights


def resize(
    values: NDArray,
    height: int,
    width: int,
    rows: range | None = None,
    columns: range | None = None,
) -> NDArray[np.float32]:
    """Resample ``values`` [H, W] of any number type to float32 [height, width].

    With ``rows`` or ``columns`` (not empty, step 1) only these of the result: float32 [len(rows),
    len(columns)]. Pixels are areas: the edges of the image stay its edges (half-pixel centres).
    """
    rows, columns = rows or range(height), columns or range(width)
    if (height, width) == values.shape:
        window = values[rows.start : rows.stop, columns.start : columns.stop]
        return np.ascontiguousarray(window, dtype=np.float32)
    down = blocks(values.shape[0], height, rows)
    across = blocks(values.shape[1], width, columns)
    left, right = across[0][1], across[-1][2]
    lower = np.empty((len(rows), right - left))
    # The input becomes float64 piece by piece: as a whole it would not fit the caches.
    for i in range(0, len(down), PIECE // OUTPUTS):
        piece = down[i : i + PIECE // OUTPUTS]
        top = piece[0][1]
        lines = values[top : piece[-1][2], left:right].astype(np.float64)
        for first, start, stop, weights in piece:
            np.matmul(weights, lines[start - top : stop - top], out=lower[first : first + OUTPUTS])
    # Lines a power of two apart would fall on the same few places of a cache: hence the padding.
    turned = np.empty((len(columns), len(rows) + 8))[:, : len(rows)]
    for first, start, stop, weights in across:
        np.matmul(
            weights, lower[:, start - left : stop - left].T, out=turned[first : first + OUTPUTS]
        )
    return turned.T.astype(np.float32, order="C")


@lru_cache(maxsize=64)
def blocks(length: int, resized: int, chosen: range) -> Sequence[Block]:
    """The ``chosen`` lines of an axis resampled from ``length`` to ``resized``, in blocks.

    A block makes the outputs ``first``, ``first + 1``, … (counted from the first chosen one) as
    ``weights`` [outputs, stop - start] @ input lines ``start`` to ``stop``. Each row of weights
    sums to exactly 1.
    """
    scale = length / resized
    support = max(scale, 1.0)
    centre = (np.array(chosen) + 0.5) * scale
    starts = np.maximum(centre[::OUTPUTS] - support, 0).astype(np.int64)
    widest = int((OUTPUTS - 1) * scale + 2 * support) + 2
    lines = np.repeat(starts, OUTPUTS)[: len(centre), None] + np.arange(widest)
    triangle = np.clip(1 - np.abs(lines + 0.5 - centre[:, None]) / support, 0, None)
    triangle[lines >= length] = 0
    triangle /= triangle.sum(1, keepdims=True)
    weights = np.rint(triangle * 2**WEIGHT_BITS)
    # What rounding took or gave is made up for where it matters least, at the largest weight.
    weights[np.arange(len(weights)), weights.argmax(1)] += 2**WEIGHT_BITS - weights.sum(1)
    weights /= 2**WEIGHT_BITS
    bands = []
    for first, start in zip(range(0, len(centre), OUTPUTS), starts.tolist(), strict=True):
        band = weights[first : first + OUTPUTS]
        # Where rounding names one line more than the band has, its weight is 0.
        stop = min(length, int(centre[first + len(band) - 1] + support) + 1, start + widest)
        bands.append((first, start, stop, np.ascontiguousarray(band[:, : stop - start])))
    return bands
