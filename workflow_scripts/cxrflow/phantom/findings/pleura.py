"""Findings between lung and chest wall, and plates of collapse at the base (frontal view)."""

import numpy as np

from cxrflow.phantom.anatomy import Chest
from cxrflow.phantom.canvas import Points
from cxrflow.phantom.course import Finding
from cxrflow.phantom.findings.effect import Effect, Scene


def effusion_level(chest: Chest, side: int, severity: float) -> Points:
    """The fluid's upper edge, from the wall inwards: a meniscus that climbs at the wall."""
    depth = 0.28 + 0.48 * severity
    u = np.linspace(1.02, 0.10, 24)
    climb = 0.50 + 0.50 * np.clip((u - 0.10) / 0.9, 0, 1) ** 2.5
    return chest.bend(np.stack([side * chest.width * u, chest.base + 0.02 - depth * climb], 1))


def effusion(scene: Scene, side: int, finding: Finding) -> Effect:
    """Fluid that blunts the costophrenic angle and hides the dome."""
    chest = scene.chest
    assert isinstance(chest, Chest)
    level = effusion_level(chest, side, finding.severity)
    below = np.array([[level[-1, 0], chest.base + 0.1], [level[0, 0], chest.base + 0.1]])
    fluid = scene.canvas.mask([np.concatenate([level, below])], 0.012) * scene.lung(side)
    return Effect(fill=fluid, dense=0.10 * fluid, box_share=0.3)


def pneumothorax(scene: Scene, side: int, finding: Finding) -> Effect:
    """Air over the apex and along the wall, and the thin line of the retracted pleura."""
    chest = scene.chest
    assert isinstance(chest, Chest)
    retreat = 0.085 + 0.20 * finding.severity
    reach = 0.62 + 0.25 * finding.severity
    wall = chest.wall(side, 0.0, reach)
    # The gap is widest at the apex and closes towards the base.
    t = np.linspace(0, 1, len(wall))[:, None]
    closing = np.sqrt(np.clip(1 - t, 0, 1))
    inwards = np.array([[-side * retreat, 0.0]]) * closing
    pleura = wall + inwards + np.array([[0.0, retreat * 1.15]]) * closing**3
    apex = np.array([[side * chest.width * 0.16, pleura[0, 1] + 0.25]])
    top = np.array([[side * chest.width * 0.16, chest.top - 0.1], [wall[0, 0], chest.top - 0.1]])
    beyond = wall + np.array([[side * 0.1, -0.05]])
    line = np.concatenate([apex, pleura])
    rim = scene.canvas.mask([np.concatenate([line, beyond[::-1], top[::-1]])], 0.006)
    rim = rim * scene.lung(side)
    edge = scene.canvas.strokes([(line, 0.020, 1.0)], 0.003) * scene.lung(side)
    return Effect(air=rim, dense=0.17 * edge, box_share=0.35)


def atelectasis(scene: Scene, side: int, finding: Finding, rng: np.random.Generator) -> Effect:
    """Plates of collapsed lung above a raised dome."""
    chest = scene.chest
    assert isinstance(chest, Chest)
    raised = 0.05 + 0.13 * finding.severity
    old, new = chest.diaphragm(side), chest.diaphragm(side, raised)
    dome = scene.canvas.mask([np.concatenate([new, old[::-1]])], 0.008)
    top = float(new[:, 1].min())
    plates = 2 + round(2 * finding.severity)
    strokes = []
    for number in range(plates):
        level = top - 0.045 - 0.085 * number
        start = (0.42 if side > 0 else 0.30) + rng.uniform(-0.04, 0.04)
        length = (0.42 + 0.10 * finding.severity) * rng.uniform(0.85, 1.0)
        s = np.linspace(0, 1, 8)
        x = side * chest.width * (start + length * s)
        y = level + 0.05 * (s - 0.5) * rng.uniform(-1, 1) + 0.02 * np.sin(np.pi * s)
        strokes.append((chest.bend(np.stack([x, y], 1)), 0.034 + 0.016 * finding.severity, 1.0))
    bands = scene.canvas.strokes(strokes, 0.006)
    fill = np.maximum(dome, (0.75 + 0.2 * finding.severity) * bands) * scene.lung(side)
    return Effect(fill=fill, dense=0.06 * dome * scene.lung(side), box_share=0.3)
