"""The pose of a chest in an image, and shapes turned into soft masks.

Shapes are given in chest coordinates: the origin is the middle of the chest, x grows to the right
of the image (a frontal view's right is the patient's left), y downwards, and 1 is half the
image's shorter side. The pose moves points, never pixels, so nothing is resampled.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from scipy.ndimage import find_objects

from cxr_hospital.acquisition import Acquisition

Array = NDArray[np.float32]
Points = NDArray[np.float64]  # [N, 2]: x, y
Box = tuple[int, int, int, int]  # x, y, width, height
#: One stroke: its points [N, 2], its width in chest units, its strength in [0, 1].
Stroke = tuple[Points, float, float]


def image_shape(aspect: float, size: int) -> tuple[int, int]:
    """Height and width of an image whose shorter side is ``size`` pixels."""
    if aspect >= 1:
        return round(size * aspect), size
    return size, round(size / aspect)


@lru_cache(maxsize=8)
def _pixel_centres(height: int, width: int) -> tuple[Array, Array]:
    rows = np.arange(height, dtype=np.float32)[:, None] + np.float32(0.5)
    columns = np.arange(width, dtype=np.float32)[None, :] + np.float32(0.5)
    return rows, columns


class Canvas:
    """The pixels of one acquisition and the map from chest coordinates to them."""

    def __init__(self, acquisition: Acquisition, size: int) -> None:
        self.height, self.width = image_shape(acquisition.aspect, size)
        self.half = size / 2
        angle = np.deg2rad(acquisition.rotation)
        self.turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        self.unit = self.half * acquisition.scale
        x = self.width / 2 + self.half * acquisition.shift_x
        y = self.height / 2 + self.half * acquisition.shift_y
        self.origin = np.array([x, y])

    def empty(self) -> Array:
        """An image of zeros."""
        return np.zeros((self.height, self.width), dtype=np.float32)

    def pixels(self, points: Points) -> Points:
        """Chest coordinates [N, 2] to pixel coordinates [N, 2] (x, y)."""
        return points @ self.turn.T * self.unit + self.origin

    def _flat(self, points: Points) -> list[float]:
        return self.pixels(points).ravel().tolist()

    def _soften(self, image: Image.Image, soft: float) -> Array:
        # Pillow draws without antialiasing; a blur of a pixel hides that. One box filter costs a
        # third of Pillow's Gaussian, which is three of them.
        radius = max(1.5 * soft * self.half, 0.8)
        blurred = image.filter(ImageFilter.BoxBlur(radius))
        return np.asarray(blurred, dtype=np.float32) / np.float32(255)

    def mask(self, polygons: Iterable[Points], soft: float = 0.008) -> Array:
        """The union of closed polygons as [H, W] in [0, 1], edges ``soft`` chest units wide."""
        image = Image.new("L", (self.width, self.height))
        draw = ImageDraw.Draw(image)
        for polygon in polygons:
            draw.polygon(self._flat(polygon), fill=255)
        return self._soften(image, soft)

    def strokes(self, strokes: Iterable[Stroke], soft: float = 0.004) -> Array:
        """Lines as [H, W] in [0, 1]; a line thinner than a pixel becomes fainter instead."""
        image = Image.new("L", (self.width, self.height))
        draw = ImageDraw.Draw(image)
        strokes = list(strokes)
        # One product for all points: there are hundreds of strokes of a few points each.
        flat = self._flat(np.concatenate([points for points, _, _ in strokes]))
        start = 0
        for points, width, strength in strokes:
            end = start + 2 * len(points)
            wide = width * self.unit
            fill = round(255 * strength * min(1.0, wide))
            # Rounded joints fill the gaps at bends, which do not show on thin lines.
            joint = "curve" if wide > 8 else None
            draw.line(flat[start:end], fill=fill, width=max(1, round(wide)), joint=joint)
            start = end
        return self._soften(image, soft)

    def bumps(
        self, centres: Points, radii: Points, strengths: Sequence[float], power: float = 2.0
    ) -> Array:
        """The strongest of several bumps ``exp(-r**power)`` at each pixel, [H, W].

        ``centres`` and ``radii`` are [N, 2] in chest units. Power 2 is a haze without an edge,
        8 a block with one. Each bump is evaluated in its own window only.
        """
        image = self.empty()
        rows, columns = _pixel_centres(self.height, self.width)
        reach = 2.2 if power < 4 else 1.35
        for centre, radius, strength in zip(self.pixels(centres), radii, strengths, strict=True):
            span = float(np.abs(radius).max()) * self.unit * reach * 1.1 + 1
            y0, y1 = (int(np.clip(centre[1] + s * span, 0, self.height)) for s in (-1, 1))
            x0, x1 = (int(np.clip(centre[0] + s * span, 0, self.width)) for s in (-1, 1))
            if y0 >= y1 or x0 >= x1:
                continue
            across = columns[:, x0:x1] - np.float32(centre[0])
            down = rows[y0:y1] - np.float32(centre[1])
            cosine, sine = np.float32(self.turn[0, 0]), np.float32(self.turn[1, 0])
            u = (across * cosine + down * sine) / np.float32(radius[0] * self.unit)
            v = (down * cosine - across * sine) / np.float32(radius[1] * self.unit)
            if power > 4:
                # A rounded block: each axis falls off by itself.
                distance = np.abs(u) ** np.float32(power) + np.abs(v) ** np.float32(power)
            else:
                distance = (u * u + v * v) ** np.float32(power / 2)
            window = image[y0:y1, x0:x1]
            np.maximum(window, np.float32(strength) * np.exp(-distance), out=window)
        return image


def grey(image: Array) -> Image.Image:
    """The picture of an image [H, W] in [0, 1], of 8 bits."""
    return Image.fromarray(np.rint(image * 255).astype(np.uint8))


def deep_grey(image: Array, levels: int = 2**16) -> Image.Image:
    """The same of 16 bits, of whose values the first ``levels`` are used."""
    return Image.fromarray(np.rint(image * np.float32(levels - 1)).astype(np.uint16))


def box_of(mask: Array, share: float) -> Box | None:
    """The tight box around pixels above ``share`` of the mask's greatest value, or ``None``."""
    top = float(mask.max())
    if top < 0.01:
        return None
    rows, columns = find_objects((mask > share * top).astype(np.uint8))[0]
    return columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start
