"""From densities to a film: sharpness, tone, grid, noise, a burnt-in letter, collimation."""

from dataclasses import replace

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from cxr_hospital.acquisition import Acquisition
from cxr_hospital.canvas import Array, Canvas

_LETTERS = {
    "L": [[(0.0, 0.0), (0.0, 1.0), (0.6, 1.0)]],
    "R": [[(0.0, 1.0), (0.0, 0.0), (0.5, 0.0), (0.6, 0.25), (0.5, 0.5), (0.0, 0.5), (0.6, 1.0)]],
}


def expose(
    image: Array,
    canvas: Canvas,
    acquisition: Acquisition,
    letter: str,
    place: tuple[float, float],
    size: float,
) -> Array:
    """Expose densities; returns the film, float32 [H, W] in [0, 1], with a ``letter`` at ``place``.

    Place, from the middle, and size are in units of half the shorter side: a letter does not move
    with the patient.
    """
    rng = np.random.default_rng(acquisition.seed)
    sigma = acquisition.blur * 2 * canvas.half
    if sigma > 0.3:
        image = gaussian_filter(image, sigma, truncate=2.5)
    if acquisition.spoilt == "edge-enhanced":
        image += 3 * (image - gaussian_filter(image, 0.02 * canvas.half))
    np.clip(image, 0, 1, out=image)
    np.power(image, np.float32(acquisition.gamma), out=image)
    image += rng.standard_normal(image.shape, dtype=np.float32) * np.float32(acquisition.noise)
    if acquisition.grid:
        lines = np.cos(np.arange(canvas.width, dtype=np.float32) * np.float32(np.pi * 0.45))
        image += np.float32(acquisition.grid) * lines
    if letter:
        still = replace(acquisition, shift_x=0, shift_y=0, scale=1, rotation=0)
        strokes = [(np.array(line) * size + place, 0.022, 1.0) for line in _LETTERS[letter]]
        burnt = Canvas(still, round(2 * canvas.half)).strokes(strokes, 0.002)
        image = np.maximum(image, 0.95 * burnt)
    if acquisition.collimation:
        edge = round(acquisition.collimation * min(canvas.height, canvas.width))
        image[:edge], image[-edge or None :] = 0.02, 0.02
        image[:, :edge], image[:, -edge or None :] = 0.02, 0.02
    return np.clip(image, 0, 1, out=image)


def grain(
    canvas: Canvas, rng: np.random.Generator, cells: int, strength: float, smooth: Image.Resampling
) -> Array:
    """Variation of density between so many cells a side, [H, W]."""
    coarse = rng.normal(0, strength, (cells, cells)).astype(np.float32)
    fine = Image.fromarray(coarse, mode="F").resize((canvas.width, canvas.height), smooth)
    return np.asarray(fine, dtype=np.float32)
