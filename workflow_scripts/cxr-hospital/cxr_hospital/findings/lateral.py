"""Findings seen from the side: no left or right, fewer signs; fractures do not show."""

import numpy as np

from cxr_hospital.canvas import Array
from cxr_hospital.course import Finding
from cxr_hospital.findings.effect import Effect, LateralScene, Rng


def effusion(scene: LateralScene, finding: Finding, rng: Rng) -> Effect:
    """Fluid that blunts the rear costophrenic angle."""
    chest = scene.chest
    if finding.zone == "lateral":
        return Effect(fill=_pocket(scene, finding), box_share=0.3)
    depth = 0.10 + 0.42 * finding.severity
    rear, front = chest.back()[-1], chest.sternum()[-1]
    s = np.linspace(-0.05, 0.95, 20)
    x = rear[0] + (front[0] - rear[0]) * s
    y = rear[1] - depth * (0.45 + 0.55 * (1 - np.clip(s, 0, 1)) ** 2.5)
    low = np.array([[x[-1], rear[1] + 0.2], [x[0], rear[1] + 0.2]])
    fluid = scene.canvas.mask([np.concatenate([np.stack([x, y], 1), low])], 0.012) * scene.lungs
    return Effect(fill=fluid, dense=0.08 * fluid, box_share=0.3)


def _pocket(scene: LateralScene, finding: Finding) -> Array:
    """Fluid or air at the chest wall, seen face on: a shadow without an edge."""
    place = scene.chest.place("lower" if finding.zone == "base" else "middle", True).of(finding)
    grown = 0.5 + 0.5 * finding.severity
    reach = np.array([[place.reach[0] * grown, place.reach[1] * grown]])
    return scene.canvas.bumps(np.array([place.centre]), reach, [0.7], 3.0) * scene.lungs


def pneumothorax(scene: LateralScene, finding: Finding, rng: Rng) -> Effect:
    """Free air at the apex and behind the sternum, and the pleural line."""
    chest = scene.chest
    if finding.zone != "apex":
        return Effect(air=_pocket(scene, finding), box_share=0.35)
    retreat = 0.06 + 0.14 * finding.severity
    wall = np.concatenate([chest.back()[2::-1], chest.sternum()[:14]])
    t = np.linspace(0, 1, len(wall))[:, None]
    closing = np.sqrt(np.clip(1 - t, 0, 1))
    line = wall + np.array([[retreat, 0.0]]) * closing + np.array([[0.0, retreat]]) * closing**3
    beyond = np.concatenate([wall[::-1] - [0.1, 0.0], [[wall[0, 0], chest.top - 0.1]]])
    rim = scene.canvas.mask([np.concatenate([line, beyond])], 0.006) * scene.lungs
    edge = scene.canvas.strokes([(line, 0.020, 1.0)], 0.003) * scene.lungs
    return Effect(air=rim, dense=0.15 * edge, box_share=0.35)


def atelectasis(scene: LateralScene, finding: Finding, rng: Rng) -> Effect:
    """Plates of collapse above a raised dome, or in a zone."""
    chest = scene.chest
    if finding.zone != "base":
        place = chest.place(finding.zone, bool(rng.random() < 0.5)).of(finding)
        reach = np.array([[place.reach[0], 0.03]] * 2)
        centres = np.array([[place.centre[0], place.centre[1] + step] for step in (-0.07, 0.07)])
        return Effect(
            fill=scene.canvas.bumps(centres, reach, [0.8, 0.8], 4.5) * scene.lungs, box_share=0.3
        )
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
