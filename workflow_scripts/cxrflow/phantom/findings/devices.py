"""Support devices: tubes, lines, a pacemaker and sternal wires, in both projections."""

from collections.abc import Callable

import numpy as np

from cxrflow.phantom.anatomy import SIDES, Chest
from cxrflow.phantom.canvas import Points, Stroke
from cxrflow.phantom.course import Finding
from cxrflow.phantom.findings.effect import Effect, Scene
from cxrflow.phantom.lateral import LateralChest

#: Strokes, filled plates, density.
_Parts = tuple[list[Stroke], list[Points], float]


def _curve(*points: tuple[float, float]) -> Points:
    """A smooth line through control points: corners cut three times (Chaikin)."""
    line = np.array(points, dtype=float)
    for _ in range(3):
        first, last = line[:1], line[-1:]
        near = 0.75 * line[:-1] + 0.25 * line[1:]
        far = 0.25 * line[:-1] + 0.75 * line[1:]
        line = np.concatenate([first, np.stack([near, far], 1).reshape(-1, 2), last])
    return line


def _endotracheal(c: Chest, side: int) -> _Parts:
    end = c.top + 0.26 * c.height
    tube = np.array([[0.012, -1.6], [0.008, c.top], [0.0, end]])
    return [(tube, 0.046, 1.0), (tube, 0.018, 0.45)], [], 0.30


def _nasogastric(c: Chest, side: int) -> _Parts:
    tube = _curve(
        (0.03, -1.6),
        (0.03, c.top),
        (0.05, c.base - 0.35),
        (0.16, c.base - 0.08),
        (0.36, c.base + 0.06),
        (0.42, c.base + 0.2),
    )
    return [(tube, 0.028, 1.0)], [], 0.28


def _central_line(c: Chest, side: int) -> _Parts:
    cava = (-0.11, c.top + 0.42 * c.height)
    line = _curve(
        (side * 0.32, -1.6),
        (side * 0.30, c.top - 0.05),
        (side * 0.22, c.top + 0.10),
        (-0.10 if side < 0 else 0.02, c.top + 0.17),
        (-0.11, c.top + 0.26),
        cava,
    )
    return [(line, 0.026, 1.0)], [], 0.30


def _pacemaker(c: Chest, side: int) -> _Parts:
    x, y = side * 0.56 * c.width / 0.73, c.top + 0.22
    angle = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    case = np.stack([x + 0.115 * np.cos(angle), y + 0.095 * np.sin(angle)], 1)
    lead = _curve(
        (x, y),
        (side * 0.36, y - 0.12),
        (side * 0.15, y + 0.02),
        (-0.10, y + 0.18),
        (-0.13, c.base - 0.50),
        (0.02, c.base - 0.30),
        (0.18, c.base - 0.24),
    )
    return [(lead, 0.024, 1.0)], [case], 0.42


def _chest_tube(c: Chest, side: int) -> _Parts:
    w = c.width
    tube = _curve(
        (side * (w + 0.25), c.base - 0.30),
        (side * (w + 0.02), c.base - 0.38),
        (side * w * 0.80, c.base - 0.60),
        (side * w * 0.70, c.top + 0.35),
        (side * w * 0.55, c.top + 0.16),
    )
    return [(tube, 0.050, 1.0), (tube, 0.022, 0.40)], [], 0.30


def _sternal_wires(c: Chest, side: int) -> _Parts:
    made: list[Stroke] = []
    for t in np.linspace(0.18, 0.72, 6):
        y = c.top + t * c.height
        angle = np.linspace(0, 2 * np.pi, 14)
        ring = np.stack([0.038 * np.cos(angle), y + 0.030 * np.sin(angle)], 1)
        made.append((ring, 0.018, 1.0))
    return made, [], 0.40


_FRONTAL: dict[str, Callable[[Chest, int], _Parts]] = {
    "endotracheal tube": _endotracheal,
    "nasogastric tube": _nasogastric,
    "central venous catheter": _central_line,
    "pacemaker": _pacemaker,
    "chest tube": _chest_tube,
    "sternal wires": _sternal_wires,
}


def _lateral_parts(c: LateralChest, kind: str) -> _Parts:
    if kind == "endotracheal tube":
        return [(np.array([[0.02, -1.6], [0.06, c.top], [0.08, c.top + 0.3]]), 0.046, 1.0)], [], 0.3
    if kind == "nasogastric tube":
        tube = _curve((0.05, -1.6), (0.13, c.top), (0.18, c.base - 0.4), (0.05, c.base + 0.1))
        return [(tube, 0.028, 1.0)], [], 0.28
    if kind == "central venous catheter":
        line = _curve((-0.15, -1.6), (-0.12, c.top), (-0.02, c.top + 0.2), (0.0, c.top + 0.5))
        return [(line, 0.026, 1.0)], [], 0.3
    if kind == "pacemaker":
        y = c.top + 0.22
        case = np.array([[-0.56, y - 0.1], [-0.50, y - 0.1], [-0.54, y + 0.1], [-0.60, y + 0.1]])
        lead = _curve(
            (-0.55, y),
            (-0.2, y - 0.1),
            (0.0, y + 0.2),
            (-0.05, c.base - 0.5),
            (-0.32, c.base - 0.3),
        )
        return [(lead, 0.024, 1.0)], [case], 0.42
    if kind == "chest tube":
        tube = _curve((0.1, c.base - 0.3), (0.2, c.base - 0.6), (0.1, c.top + 0.15))
        return [(tube, 0.05, 1.0), (tube, 0.022, 0.4)], [], 0.3
    rings = [
        (np.array([[x - 0.02, y], [x + 0.03, y + 0.01]]), 0.03, 1.0) for x, y in c.sternum()[::4]
    ]
    return rings, [], 0.4


def device(scene: Scene, finding: Finding) -> Effect:
    """One device; its side matters for lines, pacemakers and chest tubes only."""
    if isinstance(scene.chest, Chest):
        strokes, plates, density = _FRONTAL[finding.kind](scene.chest, SIDES.get(finding.side, 1))
    else:
        strokes, plates, density = _lateral_parts(scene.chest, finding.kind)
    shown = scene.canvas.strokes(strokes, 0.003)
    if plates:
        shown = np.maximum(shown, scene.canvas.mask(plates, 0.004))
    return Effect(dense=np.float32(density) * shown, box_share=0.3)
