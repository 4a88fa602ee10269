"""The frontal chest as outlines: lungs, heart, mediastinum, bones, in chest coordinates.

A side is +1 (the patient's left, right in the image) or -1. Inside a lung ``t`` runs from the apex
(0) to the costophrenic angle (1) and ``u`` from the midline (0) to the chest wall (1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from cxr_hospital.acquisition import Acquisition
from cxr_hospital.canvas import Points, Stroke
from cxr_hospital.course import Finding
from cxr_hospital.patient import Anatomy

SIDES = {"left": 1, "right": -1}
#: (t, u) along the chest wall from the apex to the costophrenic angle.
_WALL = PchipInterpolator(
    [0.0, 0.02, 0.07, 0.2, 0.4, 0.6, 0.8, 0.93, 1.0],
    [0.38, 0.52, 0.65, 0.80, 0.91, 0.965, 0.99, 0.98, 0.955],
)
#: (t, u) along the mediastinum from the apex to the cardiophrenic angle.
_MEDIASTINAL = PchipInterpolator(
    [0.0, 0.02, 0.08, 0.25, 0.5, 0.8, 1.0], [0.38, 0.27, 0.21, 0.17, 0.16, 0.15, 0.14]
)
_T = np.concatenate([np.linspace(0, 0.1, 8), np.linspace(0.14, 1, 24)])
_WALL_U, _MEDIASTINAL_U = _WALL(_T), _MEDIASTINAL(_T)
_DOME_U = np.linspace(0.955, 0.14, 24)
#: The dome's height over the costophrenic angle, 1 at its top.
_DOME = 1 - np.abs((_DOME_U - 0.42) / 0.535) ** 2.2
_RIB_S = np.linspace(0, 1, 12)
#: Middle and half height in ``t`` of the three zones.
ZONE_T = {"upper": (0.21, 0.22), "middle": (0.46, 0.22), "lower": (0.70, 0.21)}


@dataclass(frozen=True)
class Zone:
    """A zone of a lung: its centre (x, y) and half extents (x, y)."""

    side: int
    centre: tuple[float, float]
    reach: tuple[float, float]

    def of(self, finding: Finding) -> "Zone":
        """The area of the zone that one finding covers."""
        x, y = self.centre
        across, down = self.reach
        centre = (x + self.side * finding.across * across, y + finding.along * down)
        return Zone(self.side, centre, (across * finding.size, down * finding.size))


def sides_of(finding: Finding) -> Sequence[int]:
    """The sides (+1 left, -1 right) of a finding."""
    return (-1, 1) if finding.side == "both" else (SIDES[finding.side],)


class Chest:
    """Outlines of one patient's frontal chest in one acquisition.

    ``enlarged`` in [0, 1] is the severity of cardiomegaly (0: a normal heart), ``widened`` that of
    a wide upper mediastinum, ``emphysema`` that of lungs which are too large.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        acquisition: Acquisition,
        enlarged: float,
        widened: float = 0.0,
        emphysema: float = 0.0,
    ) -> None:
        self.anatomy = anatomy
        self.width = anatomy.chest_width
        breath = 0.90 + 0.12 * acquisition.inspiration
        self.height = anatomy.chest_height * breath
        self.top = -0.08 - anatomy.chest_height / 2
        self.base = self.top + self.height
        self.dome = {1: anatomy.dome_left, -1: anatomy.dome_right + 0.02}
        # In AP the heart is farther from the detector and casts a larger shadow than in PA.
        magnified = 1.05 if acquisition.projection == "AP" else 1.0
        ratio = anatomy.heart_ratio * magnified
        if enlarged:  # always above a ratio of 0.5, the radiologists' limit
            ratio = max(ratio, 0.44) + 0.09 + 0.17 * enlarged
        self.heart_width = 2 * self.width * ratio
        self.enlarged, self.widened = enlarged, widened
        if emphysema:  # low flat domes and a narrow heart
            self.dome = {side: rise * (1 - 0.8 * emphysema) for side, rise in self.dome.items()}
            self.heart_width *= 1 - 0.15 * emphysema

    def bend(self, points: Points) -> Points:
        """Shift points sideways along the patient's curve of the spine."""
        moved = points.copy()
        moved[:, 0] += self.anatomy.spine_curve * np.sin(2.2 * points[:, 1])
        return moved

    def wall(self, side: int, first: float, last: float) -> Points:
        """Points [N, 2] along the chest wall between two values of ``t``."""
        t = np.linspace(first, last, 28)
        return self.bend(np.stack([side * (self.width * _WALL(t)), self.top + self.height * t], 1))

    def diaphragm(self, side: int, raised: float = 0.0) -> Points:
        """Points [24, 2] along the dome, from the costophrenic angle to the midline."""
        rise = (self.dome[side] + raised) * _DOME
        return self.bend(np.stack([side * self.width * _DOME_U, self.base - rise], 1))

    def lung(self, side: int) -> Points:
        """The closed outline of a lung."""
        y = self.top + self.height * _T
        wall = np.stack([side * self.width * _WALL_U, y], 1)
        low = self.base - self.dome[side] * _DOME[-1]
        keep = y < low
        inner = np.stack([side * self.width * _MEDIASTINAL_U, y], 1)[keep][::-1]
        return np.concatenate([self.bend(wall), self.diaphragm(side), self.bend(inner)])

    def place(self, side: int, zone: str) -> Zone:
        """Centre and extents of a zone of a lung."""
        t, half = ZONE_T[zone]
        outer = float(_WALL(t)) * self.width
        inner = (0.30 if zone == "lower" and side > 0 else 0.2) * self.width
        return Zone(
            side,
            (side * (0.52 * outer + 0.48 * inner), float(self.top + self.height * t)),
            ((outer - inner) / 2, half * self.height),
        )

    def hilum(self, side: int) -> tuple[float, float]:
        """The point from which the vessels of a lung branch."""
        return side * 0.20 * self.width, self.top + self.height * (0.44 if side < 0 else 0.42)

    def heart(self) -> Points:
        """The closed outline of the heart: its right border, its apex low on the left."""
        angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        left_extent = self.anatomy.heart_tilt * self.heart_width
        right_extent = self.heart_width - left_extent
        x = np.cos(angle) * np.where(np.cos(angle) > 0, left_extent, right_extent)
        high = 0.31 + 0.10 * self.enlarged
        centre = self.base - 0.16 - high * 0.85
        y = centre + high * np.sin(angle) + np.where(x > 0, 0.30 * x, 0.12 * x)
        return self.bend(np.stack([x + self.anatomy.heart_shift, y], 1))

    def mediastinum(self) -> Points:
        """The closed outline of the mediastinum with the great vessels."""
        half, knob = self.anatomy.mediastinum, self.anatomy.aorta
        t = np.linspace(-0.25, 0.75, 30)
        left_x = half + knob * np.exp(-(((t - 0.26) / 0.07) ** 2)) - 0.02 * (t > 0.33)
        right_x = half * (1.02 + 0.10 * np.sin(6 * t))
        if self.widened:
            # Wide from the neck to the hila, from where it is as it was.
            wide = (0.07 + 0.13 * self.widened) / (1 + np.exp((t - 0.38) / 0.04))
            left_x, right_x = left_x + wide, right_x + 1.1 * wide
        y = self.top + self.height * t
        return self.bend(
            np.concatenate([np.stack([left_x, y], 1), np.stack([-right_x, y], 1)[::-1]])
        )

    def airway(self) -> list[Stroke]:
        """Trachea and main bronchi, darker than their surroundings."""
        fork = self.top + 0.33 * self.height
        trachea = np.array([[0.0, -1.5], [-0.005, self.top], [-0.01, fork]])
        return [
            (trachea, 0.075, 1.0),
            (np.array([[-0.01, fork], [-0.15, fork + 0.13]]), 0.05, 0.8),
            (np.array([[-0.01, fork], [0.17, fork + 0.12]]), 0.045, 0.8),
        ]

    def rib(self, side: int, number: int) -> tuple[Points, Points]:
        """Back and front part of rib ``number`` (0 the highest), [12, 2] each."""
        spacing = 0.86 / (self.anatomy.rib_pairs - 1)
        t = 0.02 + spacing * number
        slope = self.anatomy.rib_slope * (0.55 + 0.45 * min(1.0, t * 2))
        outer = self.width * float(_WALL(min(1.0, t + 0.10))) * 1.02
        inner = 0.10
        x = inner + (outer - inner) * _RIB_S
        y = self.top + self.height * t + slope * 0.62 * _RIB_S**2 - 0.05 * np.sin(np.pi * _RIB_S)
        front = _RIB_S * 0.72
        back_end = y[-1]
        front_x = outer - (outer - inner) * front**1.15
        front_y = back_end + slope * (0.25 * np.sqrt(front) + 0.55 * front)
        return (
            self.bend(np.stack([side * x, y], 1)),
            self.bend(np.stack([side * front_x, front_y], 1)),
        )

    def ribs(self) -> list[Stroke]:
        """All ribs: a band with a brighter edge; front parts fainter."""
        strokes: list[Stroke] = []
        for side in (-1, 1):
            for number in range(self.anatomy.rib_pairs):
                back, front = self.rib(side, number)
                strokes += [(front, 0.040, 0.55), (front, 0.018, 0.40)]
                strokes += [(back, 0.046, 1.0), (back, 0.022, 0.68)]
        return strokes

    def clavicles(self) -> list[Stroke]:
        """The two collar bones."""
        strokes: list[Stroke] = []
        for side in (-1, 1):
            s = np.linspace(0, 1, 9)
            x = 0.09 + 0.75 * s
            y = self.top + 0.16 - self.anatomy.clavicle_slope * s - 0.05 * np.sin(2 * np.pi * s)
            points = np.stack([side * x, y - 0.10 * s], 1)
            strokes += [(points, 0.062, 0.9), (points, 0.030, 0.7)]
        return strokes

    def spine(self) -> list[Stroke]:
        """Vertebral bodies, a column of blocks."""
        y = np.arange(-1.45, 1.45, 0.115)
        blocks = [(self.bend(np.array([[-0.07, at], [0.07, at]])), 0.088, 0.75) for at in y]
        column = self.bend(np.stack([np.zeros(12), np.linspace(-1.6, 1.6, 12)], 1))
        return [(column, 0.15, 0.55), *blocks]

    def scapulae(self) -> list[Points]:
        """Shoulder blades, faint, mostly outside the lungs."""
        shape = np.array(
            [[0.72, -0.62], [0.98, -0.66], [0.90, -0.30], [0.76, -0.02], [0.70, -0.25]]
        )
        return [shape * [side, 1] for side in (-1, 1)]

    def body(self) -> list[Points]:
        """Torso with neck and shoulders, and both arms; reaches beyond any image."""
        flank = self.width + self.anatomy.fat
        x = [0.20, 0.20, 0.30, 0.62, 0.92, 1.05, flank, flank + 0.02, flank + 0.05]
        shoulder = [self.top + down for down in (-0.22, -0.14, -0.04, 0.10, 0.32, 0.52)]
        half = np.stack([x, [-1.7, *shoulder, 0.4, 1.7]], 1)
        y = [self.top + 0.05, self.top + 0.28, 0.5, 0.55, -0.2]
        arm = np.stack([[0.80, 1.25, 1.75, 1.45, 0.9], y], 1)
        return [np.concatenate([half, half[::-1] * [-1, 1]]), arm, arm * [-1, 1]]

    def abdomen(self) -> Points:
        """The closed outline of the abdomen below both domes."""
        flank = self.width + self.anatomy.fat
        left_dome, right_dome = self.diaphragm(1), self.diaphragm(-1)[::-1]
        ends = np.array([[-flank, 1.7], [flank, 1.7]])
        return np.concatenate([left_dome, right_dome, ends])

    def breasts(self) -> list[Points]:
        """Two shadows over the lower lungs, open downwards."""
        angle = np.linspace(0, 2 * np.pi, 32, endpoint=False)
        size = 0.24 + 0.12 * self.anatomy.breast
        shape = np.stack([np.cos(angle) * size, np.sin(angle) * size * 0.95], 1)
        return [shape + [side * 0.47, self.base - 0.26] for side in (-1, 1)]
