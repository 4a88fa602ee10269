"""Support devices: tubes, lines, a pacemaker and sternal wires, in both projections."""

from collections.abc import Sequence

import numpy as np

from cxr_hospital.anatomy import SIDES, Chest
from cxr_hospital.canvas import Points, Stroke
from cxr_hospital.course import Finding
from cxr_hospital.findings.effect import Effect, FrontalScene, Scene
from cxr_hospital.lateral import LateralChest

#: Strokes, filled plates, density.
_Shapes = tuple[list[Stroke], list[Points], float]


def _curve(x: Sequence[float], y: Sequence[float]) -> Points:
    """A smooth line through control points: corners cut three times (Chaikin)."""
    line = np.stack([x, y], 1)
    for _ in range(3):
        first, last = line[:1], line[-1:]
        near = 0.75 * line[:-1] + 0.25 * line[1:]
        far = 0.25 * line[:-1] + 0.75 * line[1:]
        line = np.concatenate([first, np.stack([near, far], 1).reshape(-1, 2), last])
    return line


def _frontal_shapes(c: Chest, side: int, kind: str) -> _Shapes:
    w, top, base = c.width, c.top, c.base
    if kind == "endotracheal tube":
        tube = np.array([[0.012, -1.6], [0.008, top], [0.0, top + 0.26 * c.height]])
        return [(tube, 0.046, 1.0), (tube, 0.018, 0.45)], [], 0.30
    if kind == "nasogastric tube":
        y = [-1.6, top, base - 0.35, base - 0.08, base + 0.06, base + 0.2]
        return [(_curve((0.03, 0.03, 0.05, 0.16, 0.36, 0.42), y), 0.028, 1.0)], [], 0.28
    if kind == "central venous catheter":
        bend = -0.10 if side < 0 else 0.02
        x = [side * 0.32, side * 0.30, side * 0.22, bend, -0.11, -0.11]
        y = [-1.6, top - 0.05, top + 0.10, top + 0.17, top + 0.26, top + 0.42 * c.height]
        return [(_curve(x, y), 0.026, 1.0)], [], 0.30
    if kind == "pacemaker":
        middle, high = side * 0.56 * w / 0.73, top + 0.22
        angle = np.linspace(0, 2 * np.pi, 32, endpoint=False)
        case = np.stack([middle + 0.115 * np.cos(angle), high + 0.095 * np.sin(angle)], 1)
        x = [middle, side * 0.36, side * 0.15, -0.10, -0.13, 0.02, 0.18]
        ends = (base - 0.50, base - 0.30, base - 0.24)
        lead = _curve(x, (high, high - 0.12, high + 0.02, high + 0.18, *ends))
        return [(lead, 0.024, 1.0)], [case], 0.42
    if kind == "chest tube":
        x = [side * at for at in (w + 0.25, w + 0.02, w * 0.80, w * 0.70, w * 0.55)]
        y = [base - 0.30, base - 0.38, base - 0.60, top + 0.35, top + 0.16]
        tube = _curve(x, y)
        return [(tube, 0.050, 1.0), (tube, 0.022, 0.40)], [], 0.30
    angle = np.linspace(0, 2 * np.pi, 14)
    ring = np.stack([0.038 * np.cos(angle), 0.030 * np.sin(angle)], 1)
    levels = [top + t * c.height for t in np.linspace(0.18, 0.72, 6)]
    return [(ring + [0.0, y], 0.018, 1.0) for y in levels], [], 0.40


def _lateral_shapes(c: LateralChest, kind: str) -> _Shapes:
    top, base = c.top, c.base
    if kind == "endotracheal tube":
        return [(np.array([[0.02, -1.6], [0.06, top], [0.08, top + 0.3]]), 0.046, 1.0)], [], 0.3
    if kind == "nasogastric tube":
        tube = _curve((0.05, 0.13, 0.18, 0.05), (-1.6, top, base - 0.4, base + 0.1))
        return [(tube, 0.028, 1.0)], [], 0.28
    if kind == "central venous catheter":
        line = _curve((-0.15, -0.12, -0.02, 0.0), (-1.6, top, top + 0.2, top + 0.5))
        return [(line, 0.026, 1.0)], [], 0.3
    if kind == "pacemaker":
        y = top + 0.22
        case = np.array([[-0.56, y - 0.1], [-0.50, y - 0.1], [-0.54, y + 0.1], [-0.60, y + 0.1]])
        x = [-0.55, -0.2, 0.0, -0.05, -0.32]
        lead = _curve(x, (y, y - 0.1, y + 0.2, base - 0.5, base - 0.3))
        return [(lead, 0.024, 1.0)], [case], 0.42
    if kind == "chest tube":
        tube = _curve((0.1, 0.2, 0.1), (base - 0.3, base - 0.6, top + 0.15))
        return [(tube, 0.05, 1.0), (tube, 0.022, 0.4)], [], 0.3
    rings = [
        (np.array([[x - 0.02, y], [x + 0.03, y + 0.01]]), 0.03, 1.0) for x, y in c.sternum()[::4]
    ]
    return rings, [], 0.4


def device(scene: Scene, finding: Finding) -> Effect:
    """One device; its side matters for lines, pacemakers and chest tubes only."""
    if isinstance(scene, FrontalScene):
        side = SIDES.get(finding.side, 1)
        strokes, plates, density = _frontal_shapes(scene.chest, side, finding.kind)
    else:
        strokes, plates, density = _lateral_shapes(scene.chest, finding.kind)
    shadow = scene.canvas.strokes(strokes, 0.003)
    if plates:
        shadow = np.maximum(shadow, scene.canvas.mask(plates, 0.004))
    return Effect(dense=np.float32(density) * shadow, box_share=0.3)
