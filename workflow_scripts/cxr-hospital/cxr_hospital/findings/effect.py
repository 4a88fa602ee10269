"""The effect of a finding on an image, and the scene around it."""

from dataclasses import dataclass

import numpy as np

from cxr_hospital.anatomy import Chest
from cxr_hospital.canvas import Array, Box, Canvas, box_of
from cxr_hospital.course import Finding
from cxr_hospital.lateral import LateralChest

Rng = np.random.Generator
#: Density of airless lung over aerated lung, and of aerated lung over free air.
FILLED, EMPTIED = 0.35, 0.13


@dataclass
class Effect:
    """The change by one finding in one place; every map is [H, W] or absent.

    ``fill``: share of the lung's air that is replaced, in [0, 1]. ``air``: free air in place of
    lung, in [0, 1], without markings. ``dense``: density added to everything. ``outline``: shape
    of the box where the finding enlarges a normal organ (the heart).
    """

    fill: Array | None = None
    air: Array | None = None
    dense: Array | None = None
    outline: Array | None = None
    box_share: float = 0.25

    def box(self, lungs: Array) -> Box | None:
        """The tight box around its visible change; ``lungs`` [H, W] is the mask of air."""
        if self.outline is not None:
            return box_of(self.outline, 0.5)
        visible = np.zeros_like(lungs)
        if self.fill is not None:
            visible += FILLED * self.fill * lungs
        if self.air is not None:
            visible += EMPTIED * self.air * lungs
        if self.dense is not None:
            visible += np.abs(self.dense)
        return box_of(visible, self.box_share)


@dataclass
class FrontalScene:
    """A chest on a canvas: outlines, pixels, and masks [H, W] of the lungs, right one first."""

    chest: Chest
    canvas: Canvas
    masks: tuple[Array, Array]

    @property
    def lungs(self) -> Array:
        """The mask of both lungs."""
        return self.masks[0] + self.masks[1]

    def lung(self, side: int) -> Array:
        """The mask of the lung on ``side``."""
        return self.masks[int(side > 0)]


@dataclass
class LateralScene:
    """A chest from the side: the lungs lie over each other in one mask [H, W]."""

    chest: LateralChest
    canvas: Canvas
    lungs: Array


Scene = FrontalScene | LateralScene


def random_shape(patient_seed: int, finding: Finding, side: int) -> np.random.Generator:
    """The random stream of a finding's fine shape: the same in all of the patient's studies."""
    return np.random.default_rng([patient_seed % 2**62, finding.key, side + 1])
