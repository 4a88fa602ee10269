"""Findings between lung and chest wall, and plates of collapse at the base (frontal view)."""

import numpy as np

from cxr_hospital.anatomy import Chest, Zone
from cxr_hospital.canvas import Array, Points
from cxr_hospital.course import Finding
from cxr_hospital.findings.effect import Effect, FrontalScene, Rng


def effusion(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """Fluid that blunts the costophrenic angle and hides the dome, or a pocket at the wall."""
    chest = scene.chest
    if finding.zone == "lateral":
        pocket, _ = _pocket(scene, side, finding, _beside(chest, side, finding), 0.10, 0.26)
        return Effect(fill=pocket, dense=0.10 * pocket, box_share=0.3)
    # The fluid's upper edge, from the wall inwards: a meniscus that climbs at the wall.
    depth = (0.22 + 0.52 * finding.severity) * finding.size
    u = np.linspace(1.02, 0.10, 24)
    climb = 0.50 + 0.50 * np.clip((u - 0.10) / 0.9, 0, 1) ** 2.5
    level = chest.bend(np.stack([side * chest.width * u, chest.base + 0.02 - depth * climb], 1))
    below = np.array([[level[-1, 0], chest.base + 0.1], [level[0, 0], chest.base + 0.1]])
    fluid = scene.canvas.mask([np.concatenate([level, below])], 0.012) * scene.lung(side)
    return Effect(fill=fluid, dense=0.10 * fluid, box_share=0.3)


def _beside(chest: Chest, side: int, finding: Finding) -> Points:
    """The stretch of the side's chest wall at a pocket of fluid or air."""
    middle = 0.46 + 0.25 * finding.along
    half = (0.10 + 0.16 * finding.severity) * finding.size
    return chest.wall(side, middle - half, middle + half)


def _pocket(
    scene: FrontalScene, side: int, finding: Finding, edge: Points, least: float, more: float
) -> tuple[Array, Points]:
    """A lens between an edge of the lung [N, 2] and the lung; its mask, and the lung's new edge.

    Its depth is ``least`` and ``more`` with severity, towards the middle of the lung.
    """
    chest = scene.chest
    depth = (least + more * finding.severity) * finding.size
    middle = np.array([side * 0.5 * chest.width, chest.top + 0.5 * chest.height])
    inwards = middle - edge
    inwards /= np.linalg.norm(inwards, axis=1, keepdims=True)
    swell = np.sin(np.pi * np.linspace(0, 1, len(edge)))[:, None] ** 0.6
    inner, outer = edge + depth * swell * inwards, edge - 0.06 * inwards
    lens = scene.canvas.mask([np.concatenate([inner, outer[::-1]])], 0.008)
    return lens * scene.lung(side), inner


def pneumothorax(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """Air between lung and wall, and the thin line of the retracted pleura.

    At the apex it follows the wall downwards; elsewhere it is a pocket at the wall or on the dome.
    """
    chest = scene.chest
    if finding.zone != "apex":
        edge = _beside(chest, side, finding)
        if finding.zone == "base":
            edge = np.concatenate([chest.wall(side, 0.72, 1.0), chest.diaphragm(side)[:14]])
        air, line = _pocket(scene, side, finding, edge, 0.08, 0.20)
        return Effect(air=air, dense=0.17 * _line(scene, side, line), box_share=0.35)
    retreat = (0.085 + 0.20 * finding.severity) * finding.size
    reach = (0.45 + 0.40 * finding.severity) * finding.size
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
    return Effect(air=rim, dense=0.17 * _line(scene, side, line), box_share=0.35)


def _line(scene: FrontalScene, side: int, pleura: Points) -> Array:
    """The retracted pleura, thin and dense."""
    return scene.canvas.strokes([(pleura, 0.020, 1.0)], 0.003) * scene.lung(side)


def atelectasis(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """Plates of collapsed lung: above a raised dome, or in a zone of the lung."""
    chest = scene.chest
    if finding.zone != "base":
        return _plates(scene, chest.place(side, finding.zone).of(finding), finding, rng)
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


def _plates(scene: FrontalScene, place: Zone, finding: Finding, rng: Rng) -> Effect:
    """Two to four bands across a zone of the lung."""
    strokes = []
    levels = np.linspace(-0.6, 0.6, 2 + round(2 * finding.severity))
    for level in levels:
        s = np.linspace(-1, 1, 8)
        x = place.centre[0] + place.reach[0] * s * rng.uniform(0.8, 1.0)
        y = place.centre[1] + place.reach[1] * level + 0.04 * s * rng.uniform(-1, 1)
        strokes.append((np.stack([x, y], 1), 0.034 + 0.016 * finding.severity, 1.0))
    bands = scene.canvas.strokes(strokes, 0.006) * scene.lung(place.side)
    return Effect(fill=(0.75 + 0.2 * finding.severity) * bands, box_share=0.3)
