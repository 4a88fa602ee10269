"""Registration of a prior image to the current one (BioViL-T Appendix F.7), by SimpleITK.

Four degrees of freedom (translation, isotropic scale, rotation), mutual information of 128 bins,
bilateral filtering before, several scales, both directions, five random starts, and the run with
the highest mutual information is kept.

The starts are not all run to the end: all of them climb at the coarsest scale, those that agree are
one candidate, and only the best candidates go on to finer scales, in both directions.
docs/registration.md compares this with ten whole runs, which now and then end in a higher optimum.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.images.bilateral import bilateral
from cxrflow.images.settings import RegistrationSettings

#: Left, top, width and height of what a square shows of an image.
Rectangle = tuple[float, float, float, float]
#: Fewest pixels of a side that SimpleITK smooths over.
NARROWEST = 4
#: Two ends closer than this share of a side at every corner are one candidate.
SAME = 32


class RegistrationError(Exception):
    """These two images cannot be registered; the message says why."""


@dataclass(frozen=True)
class Alignment:
    """Where the prior image shows what the current one shows: ``y = scale R(rotation) x + shift``.

    x are points of the current image and y of the prior, in pixels of the square they are stored
    in, to the right and downwards from its middle. ``rotation`` in degrees, positive from right to
    down. ``mutual_information``: of the filtered images, in nats; NaN where it is not known.
    """

    scale: float = 1.0
    rotation: float = 0.0
    shift_x: float = 0.0
    shift_y: float = 0.0
    mutual_information: float = float("nan")

    def inverse(self) -> "Alignment":
        """The way from the prior image to the current one."""
        back = np.deg2rad(-self.rotation)
        cosine, sine = np.cos(back) / self.scale, np.sin(back) / self.scale
        return replace(
            self,
            scale=1 / self.scale,
            rotation=-self.rotation,
            shift_x=float(sine * self.shift_y - cosine * self.shift_x),
            shift_y=float(-sine * self.shift_x - cosine * self.shift_y),
        )

    def apply(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points [n, 2] (x, y) of the current image in the prior."""
        angle = np.deg2rad(self.rotation)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        moved: NDArray[np.float64] = self.scale * points @ turn.T
        return moved + np.array([self.shift_x, self.shift_y])

    def distance(self, truth: "Alignment", size: int) -> float:
        """Return how far apart the two put a corner of a square of ``size`` pixels, at most."""
        half = size / 2
        corners = np.array([[x, y] for x in (-half, half) for y in (-half, half)])
        return float(np.linalg.norm(self.apply(corners) - truth.apply(corners), axis=1).max())


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: the same images give the same digits. Pairs are what is parallel."""
    before = sitk.ProcessObject.GetGlobalDefaultNumberOfThreads()
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    try:
        yield
    finally:
        sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(before)


@one_thread()
def register(
    current: NDArray[np.uint8],
    prior: NDArray[np.uint8],
    settings: RegistrationSettings,
    inside: tuple[Rectangle, Rectangle] | None = None,
) -> Alignment:
    """Align a prior image with the current one, both uint8 [S, S].

    ``inside``: what is image of each. Padding around it has no part in the mutual information, to
    which two black borders on top of each other would be the best of matches.

    Raises:
        InputError: the two are not squares of one size.
        RegistrationError: an image is constant or too narrow, or nowhere do the two share enough.
    """
    if current.shape != prior.shape or current.ndim != 2 or current.shape[0] != current.shape[1]:
        raise InputError(
            f"registration: images of {current.shape} and {prior.shape} pixels; expected two"
            " squares of one size, as a pixel store holds them"
        )
    size = len(current)
    images = []
    pair = zip(("current", "prior"), (current, prior), inside or (None, None), strict=True)
    for name, pixels, rectangle in pair:
        image = filtered(pixels, rectangle, settings)
        if image is None:
            raise RegistrationError(f"the {name} image is constant or too narrow")
        images.append(image)
    candidates = random_starts(settings, size)
    for level, factor in enumerate(settings.levels(size)):
        fixed, moving = (_level(image, factor) for image in images)
        step = settings.next_step if level else settings.first_step
        forth = [climb(fixed, moving, start, factor, step, settings) for start in candidates]
        back = [
            climb(moving, fixed, start.inverse(), factor, step, settings) for start in candidates
        ]
        ends = [end for end in forth if end] + [end.inverse() for end in back if end]
        if not ends:
            raise RegistrationError("no start leaves enough of one image on top of the other")
        ends.sort(key=lambda end: -end.mutual_information)
        candidates = _distinct(ends, 1 if level else settings.candidates, size)
    return ends[0]


def random_starts(settings: RegistrationSettings, size: int) -> list[Alignment]:
    """Where the runs start: the same for every pair, so that none depends on the others."""
    rng = np.random.default_rng(settings.seed)
    return [
        Alignment(
            scale=1 + settings.start_scale * scale,
            rotation=settings.start_rotation * rotation,
            shift_x=settings.start_shift * size * x,
            shift_y=settings.start_shift * size * y,
        )
        for scale, rotation, x, y in rng.uniform(-1, 1, (settings.starts, 4)).tolist()
    ]


def climb(
    fixed: sitk.Image,
    moving: sitk.Image,
    start: Alignment,
    factor: int,
    step: float,
    settings: RegistrationSettings,
) -> Alignment | None:
    """The optimum of mutual information next to a start, on one level; None: no overlap left.

    ``step``: the first one, in pixels of the level; it is halved when the gradient turns round.
    """
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMattesMutualInformation(settings.level_bins(fixed.GetSize(), factor))
    method.SetInterpolator(sitk.sitkLinear)
    method.SetOptimizerAsRegularStepGradientDescent(
        learningRate=step * factor,
        minStep=settings.last_step * factor,
        numberOfIterations=settings.iterations,
        gradientMagnitudeTolerance=0.0,
    )
    method.SetOptimizerScalesFromPhysicalShift()
    transform = as_transform(start)
    method.SetInitialTransform(transform, inPlace=True)
    try:
        method.Execute(fixed, moving)
    except RuntimeError:  # of ITK: all samples outside, or none left of a level
        return None
    scale, angle, x, y = transform.GetParameters()
    return Alignment(scale, float(np.rad2deg(angle)), x, y, -method.GetMetricValue())


def as_transform(alignment: Alignment) -> sitk.Similarity2DTransform:
    """SimpleITK's form: from points of the current image to those of the prior."""
    transform = sitk.Similarity2DTransform()  # about the origin, which images have in their middle
    transform.SetParameters(
        [
            alignment.scale,
            float(np.deg2rad(alignment.rotation)),
            alignment.shift_x,
            alignment.shift_y,
        ]
    )
    return transform


def as_image(pixels: NDArray[Any], inside: Rectangle | None = None) -> sitk.Image:
    """SimpleITK's form of a square [S, S], or of a part of it; its middle is the origin."""
    left, top, width, height = (0, 0, *pixels.shape) if inside is None else map(round, inside)
    image = sitk.GetImageFromArray(pixels[top : top + height, left : left + width])
    middle = (len(pixels) - 1) / 2
    image.SetOrigin([left - middle, top - middle])
    return image


def warp(prior: NDArray[np.uint8], alignment: Alignment) -> NDArray[np.uint8]:
    """The prior image as the current one would show it: uint8 [S, S], black outside.

    It is the image itself that is resampled, linearly; filtering is for the search alone.
    """
    image = as_image(prior.astype(np.float32))
    moved = sitk.Resample(image, as_transform(alignment), sitk.sitkLinear, 0.0)
    return np.rint(sitk.GetArrayViewFromImage(moved)).astype(np.uint8)


def filtered(
    pixels: NDArray[np.uint8], inside: Rectangle | None, settings: RegistrationSettings
) -> sitk.Image | None:
    """The image [S, S], or its part inside, as it is compared (F.7); None: constant, too narrow."""
    image = as_image(pixels, inside)
    values = sitk.GetArrayViewFromImage(image)
    if values.min() == values.max() or min(values.shape) < NARROWEST:
        return None
    smooth = sitk.GetImageFromArray(bilateral(values, settings.domain_sigma, settings.range_sigma))
    smooth.CopyInformation(image)
    return smooth


def _level(image: sitk.Image, factor: int) -> sitk.Image:
    if factor == 1:
        return image
    smooth = sitk.SmoothingRecursiveGaussian(image, factor * 0.5)
    return sitk.Shrink(smooth, [factor, factor])


def _distinct(ends: Sequence[Alignment], count: int, size: int) -> list[Alignment]:
    """The best of ``ends``, which are in order, without those that say the same."""
    chosen: list[Alignment] = []
    for end in ends:
        if len(chosen) < count and all(end.distance(c, size) > size / SAME for c in chosen):
            chosen.append(end)
    return chosen
