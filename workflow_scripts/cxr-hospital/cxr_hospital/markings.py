"""Lung markings: vessels that branch from the hila and thin out towards the periphery."""

from functools import lru_cache

import numpy as np

from cxr_hospital.canvas import Points, Stroke

_STEPS = 9
_TRUNKS = 9
_TWIGS = 4


@lru_cache(maxsize=256)
def vessel_tree(seed: int) -> tuple[Points, Points]:
    """Paths of one lung, for a hilum at the origin and the chest wall to the right.

    Returns trunks [9, 9, 2] and twigs [36, 9, 2] in chest units.
    """
    rng = np.random.default_rng(seed)
    steps = np.linspace(0, 1, _STEPS)
    angles = np.linspace(-1.35, 1.35, _TRUNKS) + rng.normal(0, 0.10, _TRUNKS)
    lengths = rng.uniform(0.36, 0.52, _TRUNKS) * np.where(np.abs(angles) > 0.6, 1.15, 0.9)
    turning = rng.normal(0, 0.35, _TRUNKS)
    trunks = _paths(np.zeros((_TRUNKS, 2)), angles, lengths, turning, steps)
    starts, twig_angles, twig_lengths = [], [], []
    for trunk, angle, length in zip(trunks, angles, lengths, strict=True):
        for number in range(_TWIGS):
            at = 2 + number + int(rng.integers(0, 2))
            starts.append(trunk[at])
            twig_angles.append(angle + (0.55 if number % 2 else -0.55) + rng.normal(0, 0.2))
            twig_lengths.append(length * rng.uniform(0.35, 0.6))
    count = _TRUNKS * _TWIGS
    twigs = _paths(
        np.array(starts),
        np.array(twig_angles),
        np.array(twig_lengths),
        rng.normal(0, 0.5, count),
        steps,
    )
    return trunks, twigs


def _paths(
    starts: Points, angles: Points, lengths: Points, turning: Points, steps: Points
) -> Points:
    heading = angles[:, None] + turning[:, None] * steps
    moves = lengths[:, None, None] * np.stack([np.cos(heading), np.sin(heading)], 2) / _STEPS
    return starts[:, None] + np.cumsum(moves, 1)


def vessels(seed: int, side: int, hilum: tuple[float, float], density: float) -> list[Stroke]:
    """Strokes of one lung's vessels, faint twigs first so that trunks lie on top."""
    trunks, twigs = vessel_tree((seed + (side > 0)) % 2**63)
    mirror, origin = np.array([side, 1.0]), np.array(hilum)
    strokes: list[Stroke] = [(path * mirror + origin, 0.011, 0.40 * density) for path in twigs]
    for path in trunks:
        points = path * mirror + origin
        strokes.append((points[4:], 0.014, 0.50 * density))
        strokes.append((points[:6], 0.024, 0.75 * density))
        strokes.append((points[:3], 0.040, 0.95 * density))
    return strokes
