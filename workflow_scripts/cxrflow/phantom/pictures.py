"""Generic colour pictures of things and surfaces, to pretrain a trunk before radiographs.

A stand-in for photographs: sixteen classes, each a function of coordinates, in any place, size,
rotation, colour and light, before another surface. No class resembles a body.

Shapes: H x W pixels; coordinates run over [-1, 1] along the shorter side.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]

LEAST, MOST = 96, 144  # pixels of a side


def _inside(distance: Field) -> Field:
    """1 where a signed distance is negative, 0 where it is positive, with a soft edge."""
    return np.clip(0.5 - 12 * distance, 0, 1)


def _polygon(x: Field, y: Field, corners: int) -> Field:
    """Signed distance, about, to a regular polygon whose sides are at distance 1 / 2."""
    turns = (math.tau * np.arange(corners) / corners)[:, None, None]
    return (np.cos(turns) * x + np.sin(turns) * y).max(axis=0) - 0.5


def _flower(x: Field, y: Field) -> Field:
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    return radius - 0.55 - 0.3 * np.cos(5 * angle)


def _cross(x: Field, y: Field) -> Field:
    across = np.maximum(np.abs(x) - 0.8, np.abs(y) - 0.22)
    return np.minimum(across, np.maximum(np.abs(y) - 0.8, np.abs(x) - 0.22))


def _crescent(x: Field, y: Field) -> Field:
    return np.maximum(np.hypot(x, y) - 0.8, 0.7 - np.hypot(x - 0.4, y))


def _bricks(x: Field, y: Field) -> Field:
    row = np.floor(4 * y)
    joint = np.minimum(np.abs((4 * y) % 1 - 0.5), np.abs((2 * x + 0.5 * row) % 1 - 0.5) * 2)
    return np.clip(8 * (joint - 0.12), 0, 1)


def _dots(x: Field, y: Field) -> Field:
    return _inside(np.hypot((3 * x) % 1 - 0.5, (3 * y) % 1 - 0.5) - 0.27)


def _waves(x: Field, y: Field) -> Field:
    return 0.5 + 0.5 * np.sin(9 * (y + 0.25 * np.sin(5 * x)))


#: Things that stand in a place: signed distances, negative inside; of size 1.
THINGS: dict[str, Callable[[Field, Field], Field]] = {
    "disc": lambda x, y: np.hypot(x, y) - 0.7,
    "ring": lambda x, y: np.abs(np.hypot(x, y) - 0.65) - 0.16,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) - 0.65,
    "triangle": lambda x, y: _polygon(x, y, 3),
    "flower": _flower,
    "cross": _cross,
    "crescent": _crescent,
}
#: Surfaces that fill a picture: in [0, 1].
SURFACES: dict[str, Callable[[Field, Field], Field]] = {
    "stripes": lambda x, y: 0.5 + 0.5 * np.tanh(4 * np.sin(9 * x)),
    "chequers": lambda x, y: 0.5 + 0.5 * np.tanh(6 * np.sin(7 * x) * np.sin(7 * y)),
    "dots": _dots,
    "waves": _waves,
    "bricks": _bricks,
    "spiral": lambda x, y: 0.5 + 0.5 * np.sin(12 * np.hypot(x, y) + np.arctan2(y, x)),
    "target": lambda x, y: 0.5 + 0.5 * np.sin(14 * np.hypot(x, y)),
    "rays": lambda x, y: 0.5 + 0.5 * np.sin(12 * np.arctan2(y, x)),
    "mesh": lambda x, y: 1 - np.clip(7 * np.minimum(np.abs((3 * x) % 1 - 0.5),
                                                     np.abs((3 * y) % 1 - 0.5)), 0, 1),
}  # fmt: skip
CLASSES = (*THINGS, *SURFACES)


def picture(name: str, generator: np.random.Generator) -> NDArray[np.uint8]:
    """A picture of a class, uint8 [H, W, 3]."""
    height, width = generator.integers(LEAST, MOST, 2, endpoint=True)
    half = min(height, width) / 2
    y, x = np.mgrid[:height, :width]
    x, y = (x + 0.5 - width / 2) / half, (y + 0.5 - height / 2) / half
    if name in THINGS:
        mask = np.zeros((height, width))
        for _ in range(generator.integers(1, 4)):
            size = generator.uniform(0.25, 0.6)
            mask = np.maximum(mask, _inside(THINGS[name](*_placed(x, y, size, generator)) * size))
    else:
        mask = SURFACES[name](*_placed(x, y, generator.uniform(0.6, 1.5), generator))
    back, front = _colours(generator)
    shade = 1 + 0.25 * (x * generator.uniform(-1, 1) + y * generator.uniform(-1, 1))
    shade += _clouds(x, y, generator)
    colours = back + mask[:, :, None] * (front - back)
    noise = generator.normal(0, generator.uniform(0.01, 0.06), (height, width, 3))
    return np.rint(255 * np.clip(colours * shade[:, :, None] + noise, 0, 1)).astype(np.uint8)


def _placed(x: Field, y: Field, size: float, generator: np.random.Generator) -> tuple[Field, Field]:
    """Coordinates of something of a size, somewhere, turned."""
    x, y = x - generator.uniform(-0.6, 0.6), y - generator.uniform(-0.6, 0.6)
    angle, squeezed = generator.uniform(0, math.tau), generator.uniform(0.8, 1.25)
    cos, sin = math.cos(angle), math.sin(angle)
    return (cos * x + sin * y) / size * squeezed, (cos * y - sin * x) / size / squeezed


def _colours(generator: np.random.Generator) -> tuple[Field, Field]:
    """Two colours whose brightness differs; either may be the brighter."""
    while True:
        back, front = generator.uniform(0.05, 0.95, (2, 3))
        if abs((front - back) @ (0.299, 0.587, 0.114)) > 0.25:
            return back, front


def _clouds(x: Field, y: Field, generator: np.random.Generator) -> Field:
    """A few slow waves: no light is even."""
    waves = generator.normal(0, 2.5, (4, 2))
    phases = generator.uniform(0, math.tau, 4)
    return 0.06 * sum(
        np.sin(across * x + down * y + phase)
        for (across, down), phase in zip(waves, phases, strict=True)
    )
