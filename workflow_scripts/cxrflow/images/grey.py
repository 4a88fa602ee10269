"""From grey values of any depth to 8 bits, one image at a time.

Each rule gives the values to resample and the two ends that become 0 and 255, so that a linear
stretch is done after resizing, on far fewer pixels and rounded once.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxrflow.images.settings import PixelSettings


@dataclass(frozen=True)
class GreyScale:
    """Values [H, W] and the ``low`` and ``high`` of them that become 0 and 255."""

    values: NDArray
    low: float
    high: float

    def to_float(self, values: NDArray) -> NDArray[np.float32]:
        """``values`` (these or resampled ones) as float32 in [0, 255]."""
        scaled = (values.astype(np.float32) - np.float32(self.low)) * np.float32(
            255.0 / (self.high - self.low)
        )
        return np.clip(scaled, 0, 255, out=scaled)

    def to_bytes(self, values: NDArray) -> NDArray[np.uint8]:
        """The same, rounded to uint8."""
        return np.rint(self.to_float(values)).astype(np.uint8)


def grey_scale(values: NDArray, settings: PixelSettings, ends: tuple[float, float]) -> GreyScale:
    """Apply ``settings.intensity`` to ``values`` [H, W], whose smallest and largest are ``ends``.

    These must not be equal.
    """
    low, high = ends
    if settings.intensity == "percentile":
        inner_low, inner_high = np.percentile(values, settings.percentiles)
        # An image that is nearly all one value keeps its full range.
        if inner_low < inner_high:
            low, high = float(inner_low), float(inner_high)
        return GreyScale(np.clip(values, low, high), low, high)
    if settings.intensity == "mimic_jpg":
        stretched = GreyScale(values, low, high).to_bytes(values)
        return GreyScale(equalise_histogram(stretched), 0.0, 255.0)
    return GreyScale(values, low, high)


def equalise_histogram(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Global histogram equalisation of uint8 [H, W], OpenCV's ``equalizeHist``.

    The first occupied level goes to 0, the last to 255, a level in between to the share of the
    other pixels that are not brighter.
    """
    counts = np.bincount(image.ravel(), minlength=256)
    first = int(np.flatnonzero(counts)[0])
    others = image.size - int(counts[first])
    if others == 0:
        return image
    cumulative = np.cumsum(counts) - counts[first]
    table = np.rint(np.clip(cumulative, 0, None) * (255.0 / others)).astype(np.uint8)
    return table[image]
