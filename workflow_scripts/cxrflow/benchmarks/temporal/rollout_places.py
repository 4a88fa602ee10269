"""Places of the current image and of its prior, and how much attention falls on each.

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


class Ways(NamedTuple):
    """Where a place of the current image is in the prior: ``turn * place + shift``, [N] each."""

    turn: Places
    shift: Places

    def __call__(self, places: Places) -> Places:
        return self.turn[:, None] * places + self.shift[:, None]

    def back(self, places: Places) -> Places:
        """From the prior to the current image."""
        return (places - self.shift[:, None]) / self.turn[:, None]


def true_ways(samples: pd.DataFrame, truth: pd.DataFrame, store: PixelStore) -> Ways:
    """As the synthetic hospital has placed the chest in both images."""
    found = true_alignments(samples, truth, store)
    turn = [one.scale * np.exp(1j * np.deg2rad(one.rotation)) for one in found]
    return Ways(np.array(turn), np.array([complex(one.shift_x, one.shift_y) for one in found]))


def cell_places(size: int, grid: tuple[int, int], points: int = 1) -> Places:
    """Middles of the cells [L], or points spread over each, [L, P]."""
    height, width = grid
    x, y = (((np.arange(n * points) + 0.5) / (n * points) - 0.5) * size for n in (width, height))
    places = x[None, :] + 1j * y[:, None]
    cells = places.reshape(height, points, width, points).transpose(0, 2, 1, 3)
    return cells.reshape(height * width, points**2).squeeze()


def inside(places: Places, boxes: NDArray[np.float64], size: int) -> NDArray[np.bool_]:
    """Whether places [N, ...] lie in the box [N, 4], x, y, w, h in stored pixels, of their row."""
    corner = places + complex(size, size) / 2
    x, y, w, h = boxes.T.reshape(4, len(boxes), *[1] * (places.ndim - 1))
    across, down = corner.real - x, corner.imag - y
    return np.asarray((across >= 0) & (across < w) & (down >= 0) & (down < h))


def rotated(images_B1HW: Tensor, degrees: float) -> Tensor:
    """Images turned clockwise about their middle; black comes in from outside."""
    angle = np.deg2rad(degrees)
    # Says where each pixel is fetched from: turned back.
    fetch = torch.tensor([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0]])
    theta = fetch.to(images_B1HW).expand(len(images_B1HW), 2, 3)
    grid = affine_grid(theta, list(images_B1HW.shape), align_corners=False)
    return grid_sample(images_B1HW, grid, align_corners=False)


class Maps(NamedTuple):
    """Rollouts of N samples from the current image's patches [L] to both images."""

    own: Floats  # [N, 2 L], from the patch at the box's centre
    other: Floats  # [N, L], mean over the patches outside the box, to the prior; rows sum to 1


def shares(values_NL: Floats) -> Floats:
    """Rows brought to the sum 1; NaN where there is nothing."""
    total = values_NL.sum(1, keepdims=True)
    return ratio(values_NL, total)
