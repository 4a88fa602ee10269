"""Geometry of attention rollout: places on the current and prior image, and rotations.

Shapes: N samples, L = h x w patches, P points of a cell. A place is a complex number, x + iy in
stored pixels from the middle of the square, y downwards.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from cxrflow.benchmarks.temporal.registration_error import true_alignments
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats, ratio

Places = NDArray[np.complex128]


class PriorTransforms(NamedTuple):
    """Where a place of the current image is in the prior: ``turn * place + shift``, [N] each."""

    turn: Places
    shift: Places

    @classmethod
    def identity(cls, count: int) -> "PriorTransforms":
        """Transforms that move nothing."""
        return cls(np.ones(count, complex), np.zeros(count, complex))

    def __call__(self, places: Places) -> Places:
        return self.turn[:, None] * places + self.shift[:, None]

    def back(self, places: Places) -> Places:
        """Return where places [N, ...] of the prior are in the current image."""
        return (places - self.shift[:, None]) / self.turn[:, None]


def true_transforms(
    samples: pd.DataFrame, truth: pd.DataFrame, store: PixelStore
) -> PriorTransforms:
    """Return the transforms from the chest's true pose in both images of the synthetic hospital."""
    alignments = true_alignments(samples, truth, store)
    turn = [a.scale * np.exp(1j * np.deg2rad(a.rotation)) for a in alignments]
    shift = [complex(a.shift_x, a.shift_y) for a in alignments]
    return PriorTransforms(np.array(turn), np.array(shift))


def cell_places(size: int, grid: tuple[int, int], points: int = 1) -> Places:
    """Return the centres of the grid's cells [L], or evenly spread points of each, [L, P]."""
    height, width = grid
    x, y = (((np.arange(n * points) + 0.5) / (n * points) - 0.5) * size for n in (width, height))
    places = x[None, :] + 1j * y[:, None]
    cells = places.reshape(height, points, width, points).transpose(0, 2, 1, 3)
    return cells.reshape(height * width, points**2).squeeze()


def inside(places: Places, boxes: NDArray[np.float64], size: int) -> NDArray[np.bool_]:
    """True where a place [N, ...] is in its row's box [N, 4] (x, y, w, h in stored pixels)."""
    corner = places + complex(size, size) / 2
    x, y, w, h = boxes.T.reshape(4, len(boxes), *[1] * (places.ndim - 1))
    across, down = corner.real - x, corner.imag - y
    return np.asarray((across >= 0) & (across < w) & (down >= 0) & (down < h))


def rotated(images_B1HW: Tensor, degrees: float) -> Tensor:
    """Return the images rotated clockwise about their middle, black where nothing was."""
    angle = np.deg2rad(degrees)
    # affine_grid maps output pixels to input pixels, so this is the inverse rotation.
    fetch = torch.tensor([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0]])
    theta = fetch.to(images_B1HW).expand(len(images_B1HW), 2, 3)
    grid = affine_grid(theta, list(images_B1HW.shape), align_corners=False)
    return grid_sample(images_B1HW, grid, align_corners=False)


class Rollouts(NamedTuple):
    """Attention of N samples from patches of the current image."""

    from_start: Floats  # [N, 2 L], of the patch at the box's centre, to both images
    from_outside: Floats  # [N, L], mean over patches outside the box, to the prior; rows sum to 1


def shares(values_NL: Floats) -> Floats:
    """Return the rows scaled to the sum 1; NaN for a row of zeros."""
    total = values_NL.sum(1, keepdims=True)
    return ratio(values_NL, total)
