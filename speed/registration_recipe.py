"""The registration of BioViL-T F.7 written down plainly, ten whole runs of SimpleITK; the truth.

Each start runs through all scales in either direction, on filtered images, with the pyramid
inside of the method, and the highest mutual information wins. What the paper does not state is as
in `RegistrationSettings`; the optimiser is that of the caller.
"""

from collections.abc import Callable

import numpy as np
import SimpleITK as sitk
from numpy.typing import NDArray

from cxr_hospital.acquisition import Acquisition
from cxrflow.images.registration import Alignment, as_image, as_transform, random_starts
from cxrflow.images.settings import RegistrationSettings

Optimiser = Callable[[sitk.ImageRegistrationMethod], None]


def true_alignment(prior: Acquisition, current: Acquisition, half: float) -> Alignment:
    """How two drawn images of a chest lie to each other; ``half`` the shorter side in pixels."""
    there, here = (
        Alignment(image.scale, image.rotation, image.shift_x * half, image.shift_y * half)
        for image in (prior, current)
    )
    ((x, y),) = there.apply(here.inverse().apply(np.zeros((1, 2)))).tolist()
    return Alignment(there.scale / here.scale, there.rotation - here.rotation, x, y)


def gradient_descent(method: sitk.ImageRegistrationMethod) -> None:
    """SimpleITK's default: the step is estimated once, the end is a flat window of ten values."""
    method.SetOptimizerAsGradientDescent(learningRate=1.0, numberOfIterations=100)


def regular_steps(method: sitk.ImageRegistrationMethod) -> None:
    """Steps that are halved when the gradient turns round, down to a thousandth of a pixel."""
    method.SetOptimizerAsRegularStepGradientDescent(1.0, 1e-3, 100)


def by_the_recipe(
    current: NDArray[np.uint8],
    prior: NDArray[np.uint8],
    settings: RegistrationSettings,
    optimiser: Optimiser,
    threads: int = 1,
) -> Alignment:
    """The best of all starts in both directions."""
    images = [
        sitk.Bilateral(
            as_image(pixels.astype(np.float32)), settings.domain_sigma, settings.range_sigma
        )
        for pixels in (current, prior)
    ]
    ends = []
    for start in random_starts(settings, len(current)):
        ends += [
            _whole_run(images[0], images[1], start, settings, optimiser, threads),
            _inverse(
                _whole_run(images[1], images[0], start.inverse(), settings, optimiser, threads)
            ),
        ]
    return max((end for end in ends if end), key=lambda end: end.mutual_information)


def _inverse(end: Alignment | None) -> Alignment | None:
    return end.inverse() if end else None


def _whole_run(
    fixed: sitk.Image,
    moving: sitk.Image,
    start: Alignment,
    settings: RegistrationSettings,
    optimiser: Optimiser,
    threads: int,
) -> Alignment | None:
    method = sitk.ImageRegistrationMethod()
    method.SetNumberOfThreads(threads)
    method.SetMetricAsMattesMutualInformation(settings.bins)
    method.SetInterpolator(sitk.sitkLinear)
    optimiser(method)
    method.SetOptimizerScalesFromPhysicalShift()
    factors = settings.levels(fixed.GetSize()[0])
    method.SetShrinkFactorsPerLevel(factors)
    method.SetSmoothingSigmasPerLevel([0.5 * factor if factor > 1 else 0 for factor in factors])
    transform = as_transform(start)
    method.SetInitialTransform(transform, inPlace=True)
    try:
        method.Execute(fixed, moving)
    except RuntimeError:  # no overlap left
        return None
    scale, angle, x, y = transform.GetParameters()
    return Alignment(scale, float(np.rad2deg(angle)), x, y, -method.GetMetricValue())
