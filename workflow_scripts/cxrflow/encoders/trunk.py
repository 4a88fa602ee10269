"""What every image trunk gives, whatever its kind; a kind is a module that is imported by name.

``cxrflow.encoders.<kind>`` has a class ``Trunk`` of this shape, which an image encoder holds as
``encoder``. So another kind changes no other model's code.

Shapes: B studies, F features, h x w grid.
"""

from importlib import import_module
from typing import NamedTuple

from torch import Tensor, nn

from cxrflow.encoders.frames import Frames
from cxrflow.encoders.settings import ImageEncoderSettings


class Patches(NamedTuple):
    """Features of studies: of every cell of a grid, and of the whole."""

    grid: Tensor  # [B, F, h, w]
    pooled: Tensor  # [B, F]


class ImageTrunk(nn.Module):
    """Frames of pixels in [0, 1] to :class:`Patches`."""

    features: int  # F
    takes_prior = False

    def forward(self, frames: Frames[Tensor]) -> Patches:
        raise NotImplementedError


def build_trunk(settings: ImageEncoderSettings) -> ImageTrunk:
    """A trunk of the kind and sizes of ``settings``, randomly initialised."""
    trunk: ImageTrunk = import_module(f"cxrflow.encoders.{settings.kind}").Trunk(settings)
    return trunk


def only_current(frames: Frames[Tensor]) -> Tensor:
    """The current images, for a trunk that takes one; a prior is a :class:`ValueError`."""
    if frames.prior is not None:
        raise ValueError("a prior image was given to an encoder of one image")
    return frames.current
