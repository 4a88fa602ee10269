"""A radiograph as read, and the error of one that cannot be."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: Above this an image is refused; the largest chest radiographs have some 20 million pixels of 16
#: bits, 40 MiB. Decoding takes several times as much for a while.
MAX_BYTES = 128 << 20

#: Lines whose luminance is taken at once: few enough for the caches.
LINES = 64


class DecodeError(Exception):
    """A file that cannot be used; the message is the reason, without the path."""


@dataclass(frozen=True)
class Decoded:
    """One image as read.

    ``values`` [H, W] of some number type, mostly uint8 or uint16, bright = dense. ``photometric``
    is what the file said (``MONOCHROME1``, ``MONOCHROME2``, ``RGB``, ``P``, …), ``bits`` the bits
    stored per value, ``decoder`` the library that read it.
    """

    values: NDArray
    photometric: str
    bits: int
    decoder: str

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return float(self.values.min()), float(self.values.max())

    def to_bytes(self, values: NDArray) -> NDArray[np.uint8]:
        """Resampled ``values``, the image's smallest to 0 and its largest to 255 (BioViL E.2).

        A linear stretch is done after resizing, on far fewer pixels and rounded once.
        """
        low, high = self.ends
        scaled = (values.astype(np.float32) - np.float32(low)) * np.float32(255.0 / (high - low))
        return np.rint(np.clip(scaled, 0, 255, out=scaled)).astype(np.uint8)


def from_array(values: NDArray) -> Decoded:
    """Grey values in memory as if a file had held them; others are a :class:`DecodeError`."""
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise DecodeError(f"{values.dtype} of shape {list(values.shape)} is no grey image [H, W]")
    height, width = values.shape
    check_size(height, width, 2, MAX_BYTES)  # as a file would hold it
    if not np.isfinite(values).all():
        raise DecodeError("holds values that are not finite")
    decoded = Decoded(values, "array", 8 * values.dtype.itemsize, "numpy")
    if decoded.ends[0] == decoded.ends[1]:
        raise DecodeError(f"blank image: all {height} x {width} are equal")
    return decoded


def luminance(colour: NDArray) -> NDArray:
    """Grey of whole numbers [H, W, 3] (red, green, blue) by ITU-R 601-2: [H, W], same type.

    In whole numbers, as Pillow does it, so that a grey image saved as colour comes back exactly.
    """
    grey = np.empty(colour.shape[:2], colour.dtype)
    for top in range(0, len(colour), LINES):
        lines = colour[top : top + LINES]
        red, green, blue = (lines[..., channel].astype(np.int64) for channel in range(3))
        grey[top : top + LINES] = (red * 19595 + green * 38470 + blue * 7471 + (1 << 15)) >> 16
    return grey


def check_size(height: int, width: int, pixel_bytes: int, most: int) -> None:
    """Refuse sizes that a header may claim, before memory is taken for them.

    ``pixel_bytes``: of all channels; ``most``: bytes of a decoded image, at most.
    """
    if height < 1 or width < 1 or height * width * pixel_bytes > most:
        mebibytes = height * width * pixel_bytes / 2**20
        raise DecodeError(
            f"image size {height} x {width} is not plausible ({mebibytes:.0f} MiB decoded, at most"
            f" max_image_mib {most >> 20})"
        )
