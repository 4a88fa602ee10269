"""The contract of image trunks; a kind is a module ``cxrflow.encoders.<kind>`` with a ``Trunk``.

An image encoder holds it as ``encoder``. The module is imported by its name, which the settings
say, so another kind changes no other model's code.

Shapes: B studies, K of which have a prior, F features, h x w grid.
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
    """Frames of pixels in [0, 1] to :class:`Patches`, in one go or in two.

    The second way is for methods that change the features on the way, as MedCutMix mixes those of
    two images after block k. Both ways give the same bits, unless the trunk is compiled: then only
    :meth:`forward` is. Every stage takes an image for itself, but for batch statistics.
    """

    features: int  # F
    stages: int  # of a ResNet 4, of a transformer its blocks

    def forward(self, frames: Frames[Tensor]) -> Patches:
        """The patches of B studies."""
        return self.forward_from(self.forward_until(frames, 0), 0)

    @abstractmethod
    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        """The features after that stage; 0: before the first, after stem or patch embedding.

        One tensor for the B current images and one for the K priors. Their shape is the kind's own,
        [B, C, h, w] or [B, tokens, D].
        """

    @abstractmethod
    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        """The patches of B studies from their features after that stage."""


def build_trunk(settings: ImageEncoderSettings) -> ImageTrunk:
    """Build a trunk of the kind and sizes of ``settings``, randomly initialised."""
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


def pooled(grid_BFhw: Tensor) -> Patches:
    """A grid and the mean of its cells."""
    return Patches(grid_BFhw, grid_BFhw.mean((2, 3)))


def only_current(frames: Frames[Tensor]) -> Tensor:
    """The current images, for a trunk that takes one; a prior is a :class:`ValueError`."""
    if frames.prior is not None:
        raise ValueError("a prior image was given to an encoder of one image")
    return frames.current
