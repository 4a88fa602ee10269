"""The lateral chest as outlines: the patient looks to the left of the image.

Both lungs overlap, so that sides cannot be distinguished. The spine is behind (right), the sternum
in front (left), the heart low and in front, both domes below.
"""

import numpy as np

from cxr_hospital.acquisition import Acquisition
from cxr_hospital.anatomy import ZONE_T, Zone
from cxr_hospital.canvas import Points, Stroke
from cxr_hospital.patient import Anatomy


class LateralChest:
    """Outlines of one patient's chest from the side, in chest coordinates."""

    def __init__(self, anatomy: Anatomy, acquisition: Acquisition, enlarged: float) -> None:
        self.anatomy = anatomy
        self.depth = anatomy.chest_width * 0.86
        self.height = anatomy.chest_height * (0.92 + 0.12 * acquisition.inspiration)
        self.top = -0.08 - anatomy.chest_height / 2
        self.base = self.top + self.height
        self.enlarged = enlarged

    def sternum(self) -> Points:
        """The front border of the chest, from top to bottom, [24, 2]."""
        t = np.linspace(0.08, 0.80, 24)
        x = -self.depth * (0.42 + 0.50 * np.sin(1.5 * t) ** 0.8)
        return np.stack([x, self.top + self.height * t], 1)

    def back(self) -> Points:
        """The rear border of the lungs, from top to bottom, [24, 2]."""
        t = np.linspace(0.0, 1.04, 24)
        x = self.depth * (0.45 + 0.48 * np.sin(np.pi * np.clip(t * 0.8 + 0.08, 0, 1)))
        return np.stack([x, self.top + self.height * t], 1)

    def dome(self, lowered: float = 0.0) -> Points:
        """A diaphragm from the rear angle to the front, [24, 2]."""
        rear, front = self.back()[-1], self.sternum()[-1]
        s = np.linspace(0, 1, 24)
        y = rear[1] + (front[1] - rear[1]) * s - 0.30 * np.sin(np.pi * s**0.75) + lowered
        return np.stack([rear[0] + (front[0] - rear[0]) * s, y], 1)

    def lung(self) -> Points:
        """The closed outline of both lungs."""
        return np.concatenate([self.back(), self.dome(), self.sternum()[::-1]])

    def heart(self) -> Points:
        """The closed outline of the heart, against sternum and front dome."""
        angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
        grown = 1 + 0.5 * self.enlarged
        x = -0.26 * self.depth / 0.63 + 0.27 * grown * np.cos(angle) + 0.06 * self.enlarged
        high = 0.33 * (1 + 0.2 * self.enlarged)
        y = self.base - 0.52 - 0.06 * self.enlarged + high * np.sin(angle)
        return np.stack([x + 0.25 * (self.base - 0.5 - y), y], 1)

    def vertebrae(self) -> list[Stroke]:
        """Blocks along the rear border, clearer towards the base."""
        back = self.back()
        y = np.arange(-1.4, 1.4, 0.135)
        x = np.interp(y, back[:, 1], back[:, 0]) - 0.13
        return [
            (np.array([[a - 0.075, b - 0.01], [a + 0.075, b + 0.01]]), 0.105, 1.0)
            for a, b in zip(x, y, strict=True)
        ]

    def ribs(self) -> list[Stroke]:
        """Ribs running down from the spine to the front."""
        s = np.linspace(0, 1, 10)
        strokes: list[Stroke] = []
        for number in range(self.anatomy.rib_pairs):
            t = 0.02 + 0.82 / (self.anatomy.rib_pairs - 1) * number
            y = self.top + self.height * t
            x = self.depth * (0.75 - 1.35 * s)
            line = np.stack([x, y + 0.34 * s**1.3 + 0.05 * np.sin(np.pi * s)], 1)
            strokes += [(line, 0.046, 0.8), (line, 0.024, 0.55)]
        return strokes

    def airway(self) -> list[Stroke]:
        """The trachea, a dark band that runs down and back."""
        line = np.array([[0.0, -1.6], [0.04, self.top], [0.09, self.top + 0.36 * self.height]])
        return [(line, 0.085, 1.0)]

    def hilum(self) -> tuple[float, float]:
        """The point from which vessels branch."""
        return 0.06, self.top + 0.42 * self.height

    def body(self) -> list[Points]:
        """Torso, neck and the raised arms; reaches beyond any image."""
        fat, front, rear = self.anatomy.fat, self.sternum(), self.back()
        chest = 0.10 * self.anatomy.breast
        bulge = np.exp(-(((front[:, 1] - 0.1) / 0.25) ** 2))
        front_edge = np.stack([front[:, 0] - 0.07 - fat * 0.5 - chest * bulge, front[:, 1]], 1)
        rear_edge = np.stack([rear[:, 0] + 0.08 + fat * 0.6, rear[:, 1]], 1)
        outline = np.concatenate(
            [
                [[0.32, -1.7], [0.32, self.top - 0.15]],
                rear_edge,
                [[rear_edge[-1, 0], 1.7], [front_edge[-1, 0] - 0.05, 1.7]],
                front_edge[::-1],
                [[-0.2, self.top - 0.12], [-0.2, -1.7]],
            ]
        )
        arms = np.array(
            [[-0.25, self.top + 0.1], [0.35, self.top + 0.05], [-0.4, -1.7], [-1.2, -1.7]]
        )
        return [outline, arms]

    def abdomen(self) -> Points:
        """The closed outline of the abdomen below the domes."""
        dome = self.dome()
        ends = np.array([[dome[-1, 0] - 0.25, 1.7], [dome[0, 0] + 0.25, 1.7]])
        return np.concatenate([dome, ends])

    def place(self, zone: str, forward: bool) -> Zone:
        """Centre and extents of a zone, in front of or behind the hilum."""
        t, half = ZONE_T[zone]
        across = self.depth * 0.36
        x = (-0.38 if forward else 0.42) * self.depth
        return Zone(1, (x, self.top + self.height * t), (across * 0.85, half * self.height))
