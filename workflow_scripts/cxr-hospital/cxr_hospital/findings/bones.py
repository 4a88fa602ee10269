"""A broken rib (frontal view): a step and a gap when fresh, a knot of callus when healing."""

import numpy as np

from cxr_hospital.course import Finding
from cxr_hospital.findings.effect import Effect, FrontalScene, Rng

_RIB_OF_ZONE = {"upper": 0.22, "middle": 0.45, "lower": 0.68}


def fracture(scene: FrontalScene, side: int, finding: Finding, rng: Rng) -> Effect:
    """A break in the outer part of one rib of the zone."""
    chest = scene.chest
    number = round(_RIB_OF_ZONE[finding.zone] * (chest.anatomy.rib_pairs - 1))
    back, _ = chest.rib(side, number)
    at = int(rng.integers(7, 10))
    middle, along = back[at], back[at + 1] - back[at - 1]
    along = along / np.linalg.norm(along)
    across = np.array([-along[1], along[0]])
    across = across if across[1] > 0 else -across
    step = (0.040 + 0.065 * finding.severity) * across
    length = 0.12 + 0.10 * finding.severity
    outer = np.stack([middle + step * 0.7, middle + length * along + step * 0.7])
    inner = np.stack([middle - length * along - step * 0.3, middle - step * 0.3])
    if finding.kind == "acute":
        shards = scene.canvas.strokes([(outer, 0.062, 1.0), (inner, 0.062, 1.0)], 0.003)
        gap = scene.canvas.strokes(
            [(np.stack([middle - 1.6 * step, middle + 1.8 * step]), 0.030, 1.0)], 0.003
        )
        return Effect(dense=0.36 * shards * (1 - gap) - 0.14 * gap, box_share=0.35)
    radius = 0.052 + 0.055 * finding.severity
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    knot = (
        middle
        + 0.4 * step
        + radius * (np.outer(np.cos(angle), along) * 1.35 + np.outer(np.sin(angle), across) * 0.8)
    )
    callus = scene.canvas.mask([knot], 0.006)
    shards = scene.canvas.strokes([(outer, 0.050, 1.0), (inner, 0.050, 1.0)], 0.003)
    return Effect(dense=0.38 * callus + 0.16 * shards * (1 - callus), box_share=0.35)
