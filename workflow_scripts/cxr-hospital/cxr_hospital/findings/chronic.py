"""Findings that stay: a wide mediastinum, a thick pleura, emphysema, fibrosis, a hiatal hernia.

They come with settings alone (``prevalence``, ``further_findings``) and in the copies of NIH and
PadChest.
"""

import numpy as np

from cxr_hospital.course import Finding
from cxr_hospital.findings.effect import Effect, FrontalScene, Rng, Scene


def wide_mediastinum(scene: Scene) -> list[Effect]:
    """The box of the upper mediastinum, which ``Chest.mediastinum`` draws wide.

    In a lateral view lung lies over it on both sides, so it does not show.
    """
    if not isinstance(scene, FrontalScene):
        return []
    outline = scene.chest.mediastinum()
    upper = scene.chest.top + 0.42 * scene.chest.height
    y = np.clip(outline[:, 1], scene.chest.top, upper)
    return [Effect(outline=scene.canvas.mask([np.stack([outline[:, 0], y], 1)], 0.004))]


def thickening(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """A dense rim of the lung, a cap at the apex or along the wall, with a scalloped inner edge.

    Unlike fluid it does not lie in the angle, and is equally deep over its whole length.
    """
    chest = scene.chest
    middle = 0.07 if finding.zone == "apex" else 0.45 + 0.15 * finding.along
    half = (0.07 if finding.zone == "apex" else 0.16 + 0.10 * finding.severity) * finding.size
    edge = chest.wall(side, max(middle - half, 0.0), middle + half)
    if finding.zone == "apex":
        over = np.linspace(0.16, 0.38, 8)
        crown = np.stack([side * chest.width * over, np.full(8, chest.top)], 1)
        edge = np.concatenate([chest.bend(crown), edge])
    inwards = np.array([side * 0.4 * chest.width, chest.top + 0.5 * chest.height]) - edge
    inwards /= np.linalg.norm(inwards, axis=1, keepdims=True)
    s = np.linspace(0, 1, len(edge))
    waves = 1 + 0.3 * np.sin(2 * np.pi * (2.5 + 1.5 * rng.random()) * s + rng.uniform(0, 6))
    ends = np.clip(8 * np.minimum(s, 1 - s), 0, 1)
    depth = (0.045 + 0.085 * finding.severity) * finding.size * waves * ends
    band = np.concatenate([edge + depth[:, None] * inwards, (edge - 0.05 * inwards)[::-1]])
    rim = scene.canvas.mask([band], 0.005) * scene.lung(side)
    return Effect(fill=rim, dense=0.12 * rim, box_share=0.3)


def emphysema(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """A lung that is darker than it should be, with few vessels; its dome is low and flat.

    Bullae are round and darker still, most of them above.
    """
    chest, count = scene.chest, 2 + round(4 * finding.severity)
    x = side * chest.width * rng.uniform(0.35, 0.75, count)
    y = chest.top + chest.height * rng.uniform(0.10, 0.55, count)
    radii = np.repeat(rng.uniform(0.07, 0.14, (count, 1)), 2, axis=1)
    bullae = scene.canvas.bumps(np.stack([x, y], 1), radii, [1.0] * count, 3.5)
    air = (0.45 + 0.35 * finding.severity) * scene.lung(side)
    return Effect(air=np.maximum(air, bullae * scene.lung(side)), box_share=0.3)


def fibrosis(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """A net of fine lines in a zone, densest at the wall."""
    place = scene.chest.place(side, finding.zone).of(finding)
    strokes = []
    for _ in range(26 + round(34 * finding.severity)):
        outwards = side * (1 - rng.uniform(0, 1.7) ** 1.2 / 1.2)
        at = np.array(place.centre) + np.array(place.reach) * [outwards, rng.uniform(-1, 1)]
        angle, length = rng.uniform(0, np.pi), rng.uniform(0.035, 0.075)
        step = length * np.array([np.cos(angle), np.sin(angle)])
        strokes.append((np.stack([at - step, at + step]), 0.013, 1.0))
    net = scene.canvas.strokes(strokes, 0.003) * scene.lung(side)
    return Effect(fill=np.float32(0.65 + 0.25 * finding.severity) * net, box_share=0.3)


def hernia(scene: Scene, finding: Finding) -> Effect:
    """A round shadow on the diaphragm behind the heart, with gas above a level of fluid."""
    chest, radius = scene.chest, 0.13 + 0.13 * finding.severity
    x = 0.06 + 0.05 * finding.across if isinstance(scene, FrontalScene) else 0.12
    y = chest.base - (0.24 if isinstance(scene, FrontalScene) else 0.30) - 0.6 * radius
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    circle = np.stack([1.15 * np.cos(angle), np.sin(angle)], 1)
    sac = scene.canvas.mask([radius * circle + [x, y]], 0.006)
    gas = 0.78 * radius * circle
    gas[:, 1] = np.minimum(gas[:, 1], 0.1 * radius)
    hollow = scene.canvas.mask([gas + [x, y]], 0.005)
    return Effect(dense=np.float32(0.13) * sac - np.float32(0.19) * hollow, box_share=0.3)
