"""Errors of registrations of four degrees of freedom (BioViL-T Appendix F.7).

Shapes: N pairs of images. A matrix [N, 3, 3] takes points (x, y, 1) of the current image to those
of the prior, in pixels to the right and downwards from the middle of each.
"""

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats


def similarities(scale: ArrayLike, rotation: ArrayLike, shift: ArrayLike) -> Floats:
    """Matrices [N, 3, 3] of ``y = scale R(rotation) x + shift``.

    ``scale`` [N]; ``rotation`` [N] in degrees, positive from x to y; ``shift`` [N, 2].
    """
    scale, angle = np.asarray(scale, dtype=np.float64), np.deg2rad(rotation)
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    matrices = np.zeros((len(scale), 3, 3))
    matrices[:, 0, 0], matrices[:, 0, 1] = cosine, -sine
    matrices[:, 1, 0], matrices[:, 1, 1] = sine, cosine
    matrices[:, :2, 2] = shift
    matrices[:, 2, 2] = 1.0
    return matrices


def corner_distance(estimated: Floats, true: Floats, size: int) -> Floats:
    """Greatest distance [N], in pixels of the prior, between both positions of a corner.

    The corners are those of the current image, a square of ``size`` pixels.
    """
    half = size / 2
    corners = np.array([[x, y, 1.0] for x in (-half, half) for y in (-half, half)])
    offsets = (estimated - true) @ corners.T  # [N, 3, 4]
    distances: Floats = np.hypot(offsets[:, 0], offsets[:, 1]).max(axis=1)
    return distances


def rotation_error(estimated: Floats, true: Floats) -> Floats:
    """Angle [N] between both rotations in degrees, 0 to 180."""
    residual = estimated @ np.linalg.inv(true)
    return np.abs(np.rad2deg(np.arctan2(residual[:, 1, 0], residual[:, 0, 0])))


def scale_error(estimated: Floats, true: Floats) -> Floats:
    """Ratio [N] of the greater scale to the smaller, less one."""
    ratio = np.sqrt(np.linalg.det(estimated) / np.linalg.det(true))
    return np.asarray(np.maximum(ratio, 1 / ratio) - 1)
