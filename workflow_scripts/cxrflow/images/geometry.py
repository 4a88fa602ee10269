"""Geometries of a pixel store, and where boxes go when an image is brought to one.

``shorter512``        shorter side to 512, then the central 512 x 512 (BioViL section 4.1)
``shorter512crop480`` the same with the central 480 x 480 (the released BioViL's inference)
``longer256``         longer side to 256, zero-padded to a square (GLoRIA, MGCA)
``longer256crop224``  the central 224 x 224 of that (MGCA's inference)
``longer256unpadded`` longer side to 256, not padded (ConVIRT): stored as ``longer256``, but crops
                      in training stay inside the image
``square512``         both sides to 512, whatever the shape

Coordinates are continuous and measured from the image's upper left corner: pixel i covers
[i, i + 1], so that scaling moves the edge of an image onto the edge of the resized one. A box
x, y, w, h covers [x, x + w] x [y, y + h].
"""

import re
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxr_files.errors import InputError
from cxrflow.images.resize import resize


@dataclass(frozen=True)
class Placement:
    """Where one image of a given size lies in the stored square."""

    original_height: int
    original_width: int
    resized_height: int
    resized_width: int
    top: int  # of the stored square in the resized image; negative where zeros were padded
    left: int
    size: int

    @property
    def _scale(self) -> NDArray[np.float64]:
        return np.array(
            [self.resized_width / self.original_width, self.resized_height / self.original_height]
        )

    @property
    def _origin(self) -> NDArray[np.float64]:
        return np.array([self.left, self.top], dtype=np.float64)

    def boxes(self, boxes: ArrayLike) -> NDArray[np.float64]:
        """Boxes [n, 4] x, y, w, h of the original image in stored pixels, not clipped."""
        boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
        corner = boxes[:, :2] * self._scale - self._origin
        return np.concatenate([corner, boxes[:, 2:] * self._scale], axis=1)

    def to_original(self, boxes: ArrayLike) -> NDArray[np.float64]:
        """The inverse of :meth:`boxes`."""
        boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
        corner = (boxes[:, :2] + self._origin) / self._scale
        return np.concatenate([corner, boxes[:, 2:] / self._scale], axis=1)

    def inside_stored(self) -> tuple[float, float, float, float]:
        """The part x, y, w, h of the stored square that shows the image; the rest is padding."""
        left, top = max(0, -self.left), max(0, -self.top)
        right = min(self.size, self.resized_width - self.left)
        bottom = min(self.size, self.resized_height - self.top)
        return float(left), float(top), float(right - left), float(bottom - top)

    def inside_original(self) -> tuple[float, float, float, float]:
        """The part x, y, w, h of the original image that the store shows; the rest is cropped."""
        x, y, w, h = self.to_original([self.inside_stored()])[0].tolist()
        return x, y, w, h

    def apply(self, values: NDArray) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Resize, crop and pad ``values`` [H, W]: float32 [S, S], and where it shows the image."""
        x, y, w, h = (int(value) for value in self.inside_stored())
        rows = range(y + self.top, y + self.top + h)
        columns = range(x + self.left, x + self.left + w)
        stored = np.zeros((self.size, self.size), dtype=np.float32)
        inside = np.zeros((self.size, self.size), dtype=bool)
        stored[y : y + h, x : x + w] = resize(
            values, self.resized_height, self.resized_width, rows, columns
        )
        inside[y : y + h, x : x + w] = True
        return stored, inside


@dataclass(frozen=True)
class Geometry:
    """How images of all sizes become squares of ``size`` pixels."""

    rule: str  # "shorter", "longer" or "square"
    side: int  # what the rule's side is resized to
    size: int  # of the stored square
    padded: bool = True  # False: what lies around the image in the square is no part of it

    @classmethod
    def parse(cls, name: object) -> Self:
        """Read a name such as ``shorter512``; anything else is an :class:`InputError`."""
        pattern = r"(shorter|longer|square)([1-9]\d{0,3})(?:crop([1-9]\d{0,3})|(unpadded))?"
        match = re.fullmatch(pattern, name) if isinstance(name, str) else None
        ends = {"shorter": (3,), "longer": (3, 4), "square": ()}  # groups that may follow
        if match is None or any(match[n] and n not in ends[match[1]] for n in (3, 4)):
            raise InputError(
                f"geometry '{name}': expected shorter<N>, shorter<N>crop<M>, longer<N>, "
                "longer<N>crop<M>, longer<N>unpadded or square<N>"
            )
        rule, side = match[1], int(match[2])
        crop = int(match[3] or side)
        if crop > side:
            raise InputError(f"geometry '{name}': crop {crop} is larger than the side {side}")
        return cls(rule, side, crop, padded=not match[4])

    def __str__(self) -> str:
        crop = f"crop{self.size}" if self.size != self.side else ""
        return f"{self.rule}{self.side}{crop}{'' if self.padded else 'unpadded'}"

    def place(self, height: int, width: int) -> Placement:
        """Where an image of ``height`` x ``width`` pixels lies in the stored square.

        The free side is truncated to a whole pixel and the crop is centred with Python's
        rounding, both as torchvision's Resize and CenterCrop do.
        """
        if self.rule == "square":
            new_height = new_width = self.side
        else:
            reference = min(height, width) if self.rule == "shorter" else max(height, width)
            new_height = max(1, self.side * height // reference)
            new_width = max(1, self.side * width // reference)
        top = self._offset(new_height)
        left = self._offset(new_width)
        return Placement(height, width, new_height, new_width, top, left, self.size)

    def _offset(self, length: int) -> int:
        if self.rule == "longer":
            return round((self.side - self.size) / 2) - (self.side - length) // 2
        return round((length - self.size) / 2)
