"""A radiograph of bones: flesh, bones with dense rims, metal; then the film and its marker.

Densities are added up as they are in a chest (:mod:`cxrflow.phantom.drawing`): bones that lie over
each other are brighter where they do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from cxrflow.phantom.acquisition import Acquisition
from cxrflow.phantom.canvas import Array, Canvas, Stroke
from cxrflow.phantom.musculoskeletal.abnormalities import Abnormality, Film, apply
from cxrflow.phantom.musculoskeletal.parts import BUILDERS
from cxrflow.phantom.musculoskeletal.skeleton import Build, Points, Tube

#: Degrees by which the limb is turned about its length, by view.
VIEWS = {"frontal": 0.0, "oblique": 38.0, "lateral": 84.0}
#: Views that a part is not turned for: the chest is in the way.
_FACING = {
    "shoulder": {"oblique": 12.0, "lateral": -14.0},
    "humerus": {"oblique": 20.0, "lateral": 50.0},
}
_SIDES = {"right": 1, "left": -1}
#: The chest is at the left of the image where the arm is the patient's left.
_OF_CHEST = ("humerus", "shoulder")
_MARKERS = {
    "left": [[(0.0, 0.0), (0.0, 1.0), (0.6, 1.0)]],
    "right": [
        [(0.0, 1.0), (0.0, 0.0), (0.5, 0.0), (0.6, 0.25), (0.5, 0.5), (0.0, 0.5), (0.6, 1.0)]
    ],
}


@dataclass(frozen=True)
class BoneView:
    """How one film is taken: ``view``, and pose and tone as a chest's ``acquisition`` has them.

    ``marked``: the letter of the side is burnt in.
    """

    view: str
    marked: bool
    acquisition: Acquisition


def draw_bones(
    part: str,
    side: str,
    build: Build,
    found: tuple[Abnormality, ...],
    seed: int,
    film: BoneView,
    size: int,
) -> Array:
    """The image, float32 [H, W] in [0, 1], bright = dense.

    ``seed`` fixes the fine shape of bones and of what is wrong with them: the same on every film.
    """
    canvas = Canvas(film.acquisition, size)
    made = Film(BUILDERS[part](build, film.view == "lateral"))
    for number, one in enumerate(found):
        apply(made, one, np.random.default_rng([seed, number]))
    turned = _FACING.get(part, {}).get(film.view, VIEWS[film.view])
    mirror = _SIDES[side] * (-1 if part in _OF_CHEST else 1)
    density = _density(made, canvas, turned, mirror, build, seed)
    return _expose(density, canvas, side, film)


def _density(
    film: Film, canvas: Canvas, turned: float, mirror: int, build: Build, seed: int
) -> Array:
    """What the beam meets, [H, W]: 0 is air, flesh about 0.3, bone about 0.7, metal above 1."""
    sign = np.array([mirror, 1.0])

    def outlines(tubes: Sequence[Tube], *insets: float) -> list[list[Points]]:
        """Of each inset, the outlines of all tubes."""
        each = [[one * sign for one in tube.outlines(turned, *insets)] for tube in tubes]
        return [list(of_inset) for of_inset in zip(*each, strict=True)]

    def whole(tubes: Sequence[Tube]) -> list[Points]:
        return outlines(tubes, 0.0)[0]

    def strokes(lines: list[tuple[Points, float]]) -> list[Stroke]:
        angle = np.deg2rad(turned)
        flat = [
            (np.stack([p[:, 0] * np.cos(angle) + p[:, 2] * np.sin(angle), p[:, 1]], 1) * sign, half)
            for p, half in lines
        ]
        return [(points, 2 * half, 1.0) for points, half in flat]

    skeleton = film.skeleton
    density = 0.27 * canvas.mask(whole(skeleton.flesh), 0.03)
    if film.swollen:
        density += 0.10 * canvas.mask(whole(film.swollen), 0.06) * (density > 0.02)
    # Neighbours lie in different layers, so that where they overlap both are seen.
    bone = canvas.empty()
    thick = [one for one in skeleton.bones if not one.flat]
    flat = [one for one in skeleton.bones if one.flat]
    for tubes, share in (*((thick[layer::3], 1.0) for layer in range(3)), (flat, 0.5)):
        if tubes:
            rims, marrow = outlines(tubes, 0.0, 2.0 * build.cortex)
            bone += share * (canvas.mask(rims, 0.006) - 0.42 * canvas.mask(marrow, 0.010))
    bone *= 1 + _trabeculae(canvas, seed)
    if film.bright:
        bone += 0.40 * canvas.mask(whole(film.bright), 0.012) * (bone > 0.1)
    if film.holes:
        hole, lucent = (canvas.mask(one, 0.008) for one in outlines(film.holes, 0.0, 1.0))
        bone *= 1 - 0.72 * lucent
        bone += 0.16 * (hole - lucent)
    if film.gaps:
        bone *= 1 - 0.85 * canvas.strokes(strokes(film.gaps), 0.004)
    for x, y, across, along, strength in skeleton.dark:
        dip = canvas.bumps(
            np.array([[x * mirror, y]]), np.array([[across, along]]), [strength], 3.0
        )
        bone *= 1 - dip
        density *= 1 - dip
    density += 0.44 * bone
    if film.metal:
        density = np.maximum(density, 1.25 * canvas.strokes(strokes(film.metal), 0.003))
    return density


def _trabeculae(canvas: Canvas, seed: int) -> Array:
    """Fine grain of bone, [H, W]."""
    rng = np.random.default_rng([seed, 11])
    grain = Image.fromarray(rng.normal(0, 0.10, (56, 56)).astype(np.float32), mode="F")
    smooth = grain.resize((canvas.width, canvas.height), Image.Resampling.BILINEAR)
    return np.asarray(smooth, dtype=np.float32)


def _expose(density: Array, canvas: Canvas, side: str, film: BoneView) -> Array:
    """Tone, sharpness, noise, marker and collimation."""
    taken = film.acquisition
    rng = np.random.default_rng(taken.seed)
    image = density * np.float32(taken.contrast) + np.float32(0.04 + taken.exposure)
    sigma = taken.blur * 2 * canvas.half
    if sigma > 0.3:
        image = gaussian_filter(image, sigma, truncate=2.5)
    np.clip(image, 0, 1, out=image)
    np.power(image, np.float32(taken.gamma), out=image)
    image += rng.standard_normal(image.shape, dtype=np.float32) * np.float32(taken.noise)
    if film.marked:
        image = np.maximum(image, 0.95 * _marker(canvas, side, film))
    if taken.collimation:
        edge = round(taken.collimation * min(canvas.height, canvas.width))
        image[:edge], image[-edge or None :] = 0.02, 0.02
        image[:, :edge], image[:, -edge or None :] = 0.02, 0.02
    return np.clip(image, 0, 1, out=image)


def _marker(canvas: Canvas, side: str, film: BoneView) -> Array:
    """The letter in an upper corner: it does not move with the limb."""
    fixed = Canvas(
        replace(film.acquisition, shift_x=0, shift_y=0, scale=1, rotation=0), round(2 * canvas.half)
    )
    right = film.acquisition.marker_height == "upper"
    x = canvas.width / canvas.half / 2 * (1 if right else -1) + (-0.20 if right else 0.12)
    origin = np.array([x, -canvas.height / canvas.half / 2 + 0.10])
    lines = [(np.array(line) * 0.10 + origin, 0.022, 1.0) for line in _MARKERS[side]]
    return fixed.strokes(lines, 0.002)
