"""A radiograph of bones: flesh, bones with dense rims, metal; then the film and its marker.

Densities are added up as they are in a chest (:mod:`cxr_hospital.drawing`): bones that lie over
each other are brighter where they do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from cxr_hospital.acquisition import Acquisition
from cxr_hospital.canvas import Array, Canvas, Stroke
from cxr_hospital.film import expose, grain
from cxr_hospital.musculoskeletal import arm, hand
from cxr_hospital.musculoskeletal.abnormalities import APPLY, Abnormality, Film
from cxr_hospital.musculoskeletal.skeleton import Build, Points, Skeleton, Tube

#: MURA's seven regions of the arm: a function of a person's build, and of whether the film is
#: lateral.
BUILDERS: Mapping[str, Callable[[Build, bool], Skeleton]] = {
    "elbow": arm.elbow,
    "finger": hand.finger,
    "forearm": arm.forearm,
    "hand": hand.hand,
    "humerus": arm.humerus,
    "shoulder": arm.shoulder,
    "wrist": hand.wrist,
}
REGIONS = tuple(BUILDERS)
#: Degrees by which the limb is turned about its length, by view.
VIEWS = {"frontal": 0.0, "oblique": 38.0, "lateral": 84.0}
#: Regions that are turned less: the chest is in the way.
_FACING = {
    "shoulder": {"oblique": 12.0, "lateral": -14.0},
    "humerus": {"oblique": 20.0, "lateral": 50.0},
}
_SIDES = {"right": 1, "left": -1}
#: The chest is at the left of the image where the arm is the patient's left.
_OF_CHEST = ("humerus", "shoulder")


@dataclass(frozen=True)
class BoneView:
    """Acquisition of one film: its view, and pose and tone as of a chest.

    ``marked``: the letter of the side is burnt in.
    """

    view: str
    marked: bool
    acquisition: Acquisition


def draw_bones(
    region: str,
    side: str,
    build: Build,
    abnormalities: tuple[Abnormality, ...],
    seed: int,
    film: BoneView,
    size: int,
) -> Array:
    """The image, float32 [H, W] in [0, 1], bright = dense.

    ``seed`` fixes the fine shape of bones and abnormalities: the same on every film.
    """
    canvas = Canvas(film.acquisition, size)
    contents = Film(BUILDERS[region](build, film.view == "lateral"))
    for number, defect in enumerate(abnormalities):
        APPLY[defect.kind](contents, defect, np.random.default_rng([seed, number]))
    turned = _FACING.get(region, {}).get(film.view, VIEWS[film.view])
    mirror = _SIDES[side] * (-1 if region in _OF_CHEST else 1)
    density = _density(contents, canvas, turned, mirror, build, seed)
    acquisition = replace(film.acquisition, grid=0.0)
    image = density * np.float32(acquisition.contrast) + np.float32(0.04 + acquisition.exposure)
    right = acquisition.marker_height == "upper"
    x = canvas.width / canvas.half / 2 * (1 if right else -1) + (-0.20 if right else 0.12)
    place = (x, -canvas.height / canvas.half / 2 + 0.10)
    return expose(image, canvas, acquisition, side[0].upper() if film.marked else "", place, 0.10)


def _density(
    film: Film, canvas: Canvas, turned: float, mirror: int, build: Build, seed: int
) -> Array:
    """Density [H, W]: 0 is air, flesh about 0.3, bone about 0.7, metal above 1."""
    sign = np.array([mirror, 1.0])

    def outlines(tubes: Sequence[Tube], *insets: float) -> list[list[Points]]:
        """The outlines of all tubes, a list for each inset."""
        each = [[outline * sign for outline in tube.outlines(turned, *insets)] for tube in tubes]
        return [list(of_inset) for of_inset in zip(*each, strict=True)]

    def silhouettes(tubes: Sequence[Tube]) -> list[Points]:
        return outlines(tubes, 0.0)[0]

    def strokes(lines: list[tuple[Points, float]]) -> list[Stroke]:
        cos, sin = np.cos(np.deg2rad(turned)), np.sin(np.deg2rad(turned))
        return [
            (np.stack([p[:, 0] * cos + p[:, 2] * sin, p[:, 1]], 1) * sign, 2 * half, 1.0)
            for p, half in lines
        ]

    skeleton = film.skeleton
    density = 0.27 * canvas.mask(silhouettes(skeleton.flesh), 0.03)
    if film.swollen:
        density += 0.10 * canvas.mask(silhouettes(film.swollen), 0.06) * (density > 0.02)
    # Every third bone is one layer, so that neighbours add up where they overlap.
    bone = canvas.empty()
    thick = [limb_bone for limb_bone in skeleton.bones if not limb_bone.flat]
    flat = [limb_bone for limb_bone in skeleton.bones if limb_bone.flat]
    for tubes, share in (*((thick[layer::3], 1.0) for layer in range(3)), (flat, 0.5)):
        if tubes:
            rims, marrow = outlines(tubes, 0.0, 2.0 * build.cortex)
            bone += share * (canvas.mask(rims, 0.006) - 0.42 * canvas.mask(marrow, 0.010))
    trabeculae = np.random.default_rng([seed, 11])
    bone *= 1 + grain(canvas, trabeculae, 56, 0.10, Image.Resampling.BILINEAR)
    if film.bright:
        bone += 0.40 * canvas.mask(silhouettes(film.bright), 0.012) * (bone > 0.1)
    if film.holes:
        hole, lucent = (canvas.mask(shapes, 0.008) for shapes in outlines(film.holes, 0.0, 1.0))
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
