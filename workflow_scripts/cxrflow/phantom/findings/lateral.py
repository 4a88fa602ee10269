"""Findings seen from the side: no left or right, fewer signs; fractures do not show."""

import numpy as np

from cxrflow.phantom.course import Finding
from cxrflow.phantom.findings.effect import Effect, Scene
from cxrflow.phantom.lateral import LateralChest


def _chest(scene: Scene) -> LateralChest:
    assert isinstance(scene.chest, LateralChest)
    return scene.chest


def effusion(scene: Scene, finding: Finding) -> Effect:
    """Fluid that blunts the rear costophrenic angle."""
    chest = _chest(scene)
    depth = 0.10 + 0.42 * finding.severity
    rear, front = chest.back()[-1], chest.sternum()[-1]
    s = np.linspace(-0.05, 0.95, 20)
    x = rear[0] + (front[0] - rear[0]) * s
    y = rear[1] - depth * (0.45 + 0.55 * (1 - np.clip(s, 0, 1)) ** 2.5)
    low = np.array([[x[-1], rear[1] + 0.2], [x[0], rear[1] + 0.2]])
    fluid = scene.canvas.mask([np.concatenate([np.stack([x, y], 1), low])], 0.012) * scene.lungs
    return Effect(fill=fluid, dense=0.08 * fluid, box_share=0.3)


def pneumothorax(scene: Scene, finding: Finding) -> Effect:
    """Free air at the apex and behind the sternum, and the pleural line."""
    chest = _chest(scene)
    retreat = 0.06 + 0.14 * finding.severity
    wall = np.concatenate([chest.back()[2::-1], chest.sternum()[:14]])
    t = np.linspace(0, 1, len(wall))[:, None]
    closing = np.sqrt(np.clip(1 - t, 0, 1))
    line = wall + np.array([[retreat, 0.0]]) * closing + np.array([[0.0, retreat]]) * closing**3
    beyond = np.concatenate([wall[::-1] - [0.1, 0.0], [[wall[0, 0], chest.top - 0.1]]])
    rim = scene.canvas.mask([np.concatenate([line, beyond])], 0.006) * scene.lungs
    edge = scene.canvas.strokes([(line, 0.020, 1.0)], 0.003) * scene.lungs
    return Effect(air=rim, dense=0.15 * edge, box_share=0.35)


def atelectasis(scene: Scene, finding: Finding, rng: np.random.Generator) -> Effect:
    """Plates of collapse above a raised dome."""
    chest = _chest(scene)
    old, new = chest.dome(), chest.dome(-0.05 - 0.10 * finding.severity)
    dome = scene.canvas.mask([np.concatenate([new, old[::-1]])], 0.008) * scene.lungs
    top = float(new[:, 1].min())
    strokes = []
    for number in range(2 + round(2 * finding.severity)):
        y = top - 0.03 - 0.08 * number
        x = np.array([0.38, 0.02]) * chest.depth / 0.63 + rng.uniform(-0.05, 0.05)
        strokes.append((np.stack([x, [y, y - 0.03]], 1), 0.034, 1.0))
    bands = scene.canvas.strokes(strokes, 0.006) * scene.lungs
    return Effect(fill=np.maximum(dome, 0.8 * bands), box_share=0.3)
