"""What every image trunk gives, whatever its kind; a kind is a module that is imported by name.

``cxrflow.encoders.<kind>`` has a class ``Trunk`` of this shape, which an image encoder holds as
``encoder``. So another kind changes no other model's code.

Shapes: B studies, F features, h x w grid.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from cxrflow.encoders.frames import Frames
from cxrflow.encoders.settings import ImageEncoderSettings

# Mean and deviation of the three channels.
NORMALISATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # torchvision's
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


class Patches(NamedTuple):
    """Features of studies: of every cell of a grid, and of the whole."""

    grid: Tensor  # [B, F, h, w]
    pooled: Tensor  # [B, F]


class ImageTrunk(nn.Module, ABC):
    """Frames of pixels in [0, 1] to :class:`Patches`."""

    features: int  # F

    @abstractmethod
    def forward(self, frames: Frames[Tensor]) -> Patches:
        """The patches of B studies."""


def build_trunk(settings: ImageEncoderSettings) -> ImageTrunk:
    """A trunk of the kind and sizes of ``settings``, randomly initialised."""
    trunk: ImageTrunk = settings.code("Trunk")(settings)
    return trunk


def coloured(pixels_B1HW: Tensor, settings: ImageEncoderSettings) -> Tensor:
    """Grey pixels in [0, 1] as the trunk takes them, [B, C, H, W]: repeated, normalised."""
    pixels = pixels_B1HW.expand(-1, settings.channels, -1, -1)
    if settings.normalisation == "none":
        return pixels
    mean, deviation = (
        pixels.new_tensor(values[: settings.channels])[:, None, None]
        for values in NORMALISATIONS[settings.normalisation]
    )
    return (pixels - mean) / deviation


def only_current(frames: Frames[Tensor]) -> Tensor:
    """The current images, for a trunk that takes one; a prior is a :class:`ValueError`."""
    if frames.prior is not None:
        raise ValueError("a prior image was given to an encoder of one image")
    return frames.current
