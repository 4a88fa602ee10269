"""Findings that fill the air of the lung: they differ in edge, texture, number and place.

Consolidation is one even block with straight edges and dark air bronchograms; pneumonia is a
cluster of blotches; lung opacity is one faint haze without an edge; a lesion is round and sharp;
edema is a haze around both hila with short lines at the periphery. Severity is extent first,
density second.
"""

import numpy as np

from cxr_hospital.anatomy import Zone
from cxr_hospital.canvas import Points, Stroke
from cxr_hospital.course import Finding
from cxr_hospital.findings.effect import Effect, Rng, Scene


def _extent(severity: float) -> float:
    return 0.80 + 0.45 * severity


def consolidation(scene: Scene, place: Zone, finding: Finding, rng: Rng) -> Effect:
    """An even block that fills the zone from the chest wall, with air bronchograms."""
    grown = _extent(finding.severity)
    reach = np.array([[place.reach[0] * grown * 1.05, place.reach[1] * grown * 1.05]])
    outwards = place.side * place.reach[0] * (1 - grown) * 0.5
    centre = np.array([[place.centre[0] + outwards, place.centre[1]]])
    fill = scene.canvas.bumps(centre, reach, [1.0], power=7.0)
    tilt = float(rng.uniform(-0.2, 0.2))
    branches: list[Stroke] = []
    inner = centre[0] - [place.side * reach[0, 0] * 0.8, 0]
    for angle in (-0.55 + tilt, 0.0 + tilt, 0.5 + tilt):
        end = inner + [
            place.side * reach[0, 0] * 1.35 * np.cos(angle),
            reach[0, 1] * 1.3 * np.sin(angle),
        ]
        branches.append((np.stack([inner, end]), 0.018, 1.0))
    bronchi = scene.canvas.strokes(branches, 0.004)
    density = 0.84 + 0.14 * finding.severity
    return Effect(fill=density * fill * (1 - 0.7 * bronchi), box_share=0.35)


def pneumonia(scene: Scene, place: Zone, finding: Finding, rng: Rng) -> Effect:
    """Blotches of different size and density, scattered over the zone."""
    spots = 14
    angle = np.arange(spots) * 2.4 + rng.uniform(0, 6.28)
    away = np.sqrt((np.arange(spots) + 0.3) / spots) * rng.uniform(0.85, 1.1, spots)
    count = 6 + round(8 * finding.severity)
    grown = 0.85 + 0.35 * finding.severity
    offsets = np.stack([np.cos(angle), np.sin(angle)], 1) * away[:, None]
    centres = np.array(place.centre) + offsets * np.array(place.reach) * 0.95 * grown
    radii = rng.uniform(0.065, 0.100, (spots, 1)) * rng.uniform(0.8, 1.25, (spots, 2)) * grown
    radii *= finding.size
    strengths = rng.uniform(0.65, 1.0, spots)
    fill = scene.canvas.bumps(centres[:count], radii[:count], strengths[:count].tolist(), 2.6)
    return Effect(fill=np.float32(0.72 + 0.2 * finding.severity) * fill, box_share=0.3)


def lung_opacity(scene: Scene, place: Zone, finding: Finding, rng: Rng) -> Effect:
    """One faint haze without an edge."""
    reach = np.array(place.reach) * _extent(finding.severity) * rng.uniform(0.8, 1.0, 2)
    centre = np.array(place.centre) + rng.uniform(-0.12, 0.12, 2) * np.array(place.reach)
    fill = scene.canvas.bumps(centre[None], reach[None], [0.56 + 0.24 * finding.severity], 2.0)
    return Effect(fill=fill, box_share=0.28)


def lesion(scene: Scene, place: Zone, finding: Finding, rng: Rng) -> Effect:
    """A round shadow with a sharp edge; a nodule when small, a mass when large."""
    radius = 0.060 + 0.10 * finding.severity
    reach = np.maximum(np.array(place.reach) - radius, 0.02)
    centre = np.array(place.centre) + rng.uniform(-0.8, 0.8, 2) * reach
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    wave = 1 + 0.05 * np.sin(3 * angle + rng.uniform(0, 6)) + 0.03 * np.sin(7 * angle)
    outline = centre + radius * wave[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    shadow = scene.canvas.mask([outline], 0.006)
    return Effect(fill=shadow, dense=0.10 * shadow, box_share=0.4)


def edema(scene: Scene, hilum: Zone, finding: Finding, septa: list[Stroke]) -> Effect:
    """Half of the bat's wings: a haze around the hilum, and Kerley lines at the wall."""
    grown = 0.62 + 0.45 * finding.severity
    (x, y), reach = hilum.centre, hilum.reach
    centre = np.array([[x + hilum.side * reach[0] * 0.42, y + 0.06]])
    wing = np.array([[reach[0] * 0.95 * grown, reach[1] * grown]])
    fill = scene.canvas.bumps(centre, wing, [0.50 + 0.35 * finding.severity], 2.4)
    lines = scene.canvas.strokes(septa, 0.003)
    return Effect(fill=np.maximum(fill, (0.45 + 0.3 * finding.severity) * lines), box_share=0.25)


def kerley_lines(side: int, wall: Points, severity: float, rng: Rng) -> list[Stroke]:
    """Short level lines that end at the lower chest wall ``wall`` [N, 2]."""
    count = 4 + round(5 * severity)
    ends = wall[np.linspace(0, len(wall) - 1, count).astype(int)]
    lengths = rng.uniform(0.07, 0.12, count)
    return [
        (np.array([end, end - [side * length, 0.008]]), 0.010, 1.0)
        for end, length in zip(ends, lengths, strict=True)
    ]
