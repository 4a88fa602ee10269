"""How two images of a patient lie to each other: the truth that registration is measured by.

BioViL-T Appendix F.7 registers with four degrees of freedom: two of translation, one isotropic
scale, one rotation. An acquisition places the chest by just these, so that between two of them the
transform is known in closed form. What it does not hold is no rigid motion: a deeper breath, and
the larger heart of an AP film.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from cxrflow.phantom.acquisition import Acquisition
from cxrflow.phantom.canvas import Points


@dataclass(frozen=True)
class Similarity:
    """``y = scale R(rotation) x + shift`` about the middles of two images.

    Coordinates are x to the right and y downwards from the middle of an image, in units of half its
    shorter side: the same for every resolution, and after a crop about the middle with the side
    counted before the crop. ``rotation`` in degrees, positive from x to y (clockwise as seen).
    """

    shift_x: float
    shift_y: float
    scale: float
    rotation: float

    @classmethod
    def of(cls, image: Acquisition) -> Self:
        """From the coordinates of the chest to those of one image."""
        return cls(image.shift_x, image.shift_y, image.scale, image.rotation)

    def matrix(self) -> Points:
        """Homogeneous matrix [3, 3]."""
        angle = np.deg2rad(self.rotation)
        cosine, sine = self.scale * np.cos(angle), self.scale * np.sin(angle)
        return np.array(
            [[cosine, -sine, self.shift_x], [sine, cosine, self.shift_y], [0.0, 0.0, 1.0]]
        )

    def inverse(self) -> "Similarity":
        """The way back."""
        return _similarity(np.linalg.inv(self.matrix()).astype(np.float64))

    def after(self, first: "Similarity") -> "Similarity":
        """``first``, then this one."""
        return _similarity(self.matrix() @ first.matrix())

    def apply(self, points: Points, side: float = 2.0) -> Points:
        """Where points [N, 2] go; with ``side`` of the shorter side in pixels, in pixels.

        Pixels too are counted from the middle of the image.
        """
        half = side / 2
        there: Points = points @ self.matrix()[:2, :2].T
        return there + np.array([self.shift_x, self.shift_y]) * half


def _similarity(matrix: Points) -> Similarity:
    cosine, sine = matrix[0, 0], matrix[1, 0]
    return Similarity(
        float(matrix[0, 2]),
        float(matrix[1, 2]),
        float(np.hypot(cosine, sine)),
        float(np.rad2deg(np.arctan2(sine, cosine))),
    )


def relative_transform(prior: Acquisition, current: Acquisition) -> Similarity:
    """What brings the prior image of a patient onto the current one, from prior to current points.

    SimpleITK's transforms, which say where to fetch a pixel from, are its ``inverse()``.
    """
    return Similarity.of(current).after(Similarity.of(prior).inverse())
