"""The bilateral filter (Tomasi and Manduchi 1998) of 8-bit images, as SimpleITK's ``Bilateral``.

Registration filters both images of a pair, which takes SimpleITK a third of its whole time. Grey
levels are whole numbers, so that a table holds every weight, and two pixels weigh each other alike,
so that each pair of them is looked at once.
"""

import numpy as np
from numpy.typing import NDArray

#: As in ITK's BilateralImageFilter: where the weights end, in sigmas of distance and of grey level,
#: and the steps of its table of the latter.
DOMAIN_END, RANGE_END, STEPS = 2.5, 4.0, 100
#: Rows worked on at once, so that they stay in a core's cache.
ROWS = 32


def bilateral(
    pixels: NDArray[np.uint8], domain_sigma: float, range_sigma: float
) -> NDArray[np.float32]:
    """Filter ``pixels`` uint8 [H, W]; beyond the border the pixels of the border go on.

    ``domain_sigma`` in pixels, ``range_sigma`` in grey levels.
    """
    radius = int(np.ceil(DOMAIN_END * domain_sigma))
    # Rows lie one after the other: a neighbour is a shift, and what wraps round is border.
    levels = np.pad(pixels, radius, mode="edge").astype(np.intp)
    height, width = levels.shape
    grey = levels.astype(np.float32).ravel()
    levels = levels.ravel()
    table = range_weights(range_sigma)
    total, weights = grey.copy(), np.ones_like(grey)  # of the pixel itself
    sides = range(-radius, radius + 1)
    shifts = [(y, x) for y in range(radius + 1) for x in sides if (y, x) > (0, 0)]
    near = [np.float32(np.exp(-0.5 * (x * x + y * y) / domain_sigma**2)) for y, x in shifts]
    block = ROWS * width
    for start in range(0, height * width, block):
        for (y, x), factor in zip(shifts, near, strict=True):
            shift = y * width + x
            pixel = slice(start, min(start + block, height * width - shift))
            if pixel.stop <= start:
                continue
            neighbour = slice(pixel.start + shift, pixel.stop + shift)
            weight = table[levels[neighbour] - levels[pixel]]
            weight *= factor
            weights[pixel] += weight
            total[pixel] += weight * grey[neighbour]
            weights[neighbour] += weight
            total[neighbour] += weight * grey[pixel]
    inner = slice(radius, -radius)
    filtered: NDArray[np.float32] = (total / weights).reshape(height, width)[inner, inner]
    return filtered


def range_weights(sigma: float) -> NDArray[np.float32]:
    """Weight of a difference in grey level: entry d for d from -255 to 255, those below 0 last."""
    levels = np.abs(np.concatenate([np.arange(256), np.arange(-255, 0)]))
    step = RANGE_END * sigma / STEPS
    places = np.floor(levels / step)
    weights = np.exp(-0.5 * (places * step / sigma) ** 2)
    return np.where(levels < RANGE_END * sigma, weights, 0.0).astype(np.float32)
