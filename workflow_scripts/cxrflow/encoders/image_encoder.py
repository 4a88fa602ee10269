"""The image half of BioViL: a ResNet and a projection of its patches to the joint space.

BioViL section 2.2 and Appendix E.2: the projection is a two-layer perceptron of 1x1 convolutions
with batch normalisation, applied to the patches before they are averaged. Parameter names are the
released ones (``encoder.encoder.*``, ``projector.model.*``).

Shapes: B images, F trunk features, P joint space, h x w grid.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ImageEncoderSettings


class ImageOutput(NamedTuple):
    """What the image half gives for B images."""

    projected_global: Tensor  # [B, P], L2-normalised mean of the un-normalised patches
    projected_patches: Tensor  # [B, h, w, P], L2-normalised


class Trunk(nn.Module):
    """Holds the ResNet under the name the released checkpoints use."""

    def __init__(self, settings: ImageEncoderSettings) -> None:
        super().__init__()
        self.encoder = ResNet(settings)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


class Projector(nn.Module):
    """1x1 convolution, batch normalisation, ReLU, 1x1 convolution."""

    def __init__(self, features: int, projection: int) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(features, projection, 1, bias=False),
            nn.BatchNorm2d(projection),
            nn.ReLU(inplace=True),
            nn.Conv2d(projection, projection, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


class ImageEncoder(nn.Module):
    """Images [B, 1, H, W] in [0, 1] to an :class:`ImageOutput`."""

    def __init__(self, settings: ImageEncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = Trunk(settings)
        self.projector = Projector(self.encoder.encoder.features, settings.projection)

    def patches(self, pixels_B1HW: Tensor) -> Tensor:
        """Trunk features [B, F, h, w] before projection."""
        return self.encoder(pixels_B1HW.expand(-1, self.settings.channels, -1, -1))

    def forward(self, pixels_B1HW: Tensor) -> ImageOutput:
        projected_BPhw = self.projector(self.patches(pixels_B1HW)).float()
        return ImageOutput(
            nn.functional.normalize(projected_BPhw.mean((2, 3)), dim=1),
            nn.functional.normalize(projected_BPhw.permute(0, 2, 3, 1), dim=3),
        )

    def use_channels_last(self) -> "ImageEncoder":
        """Store convolution weights channels-last, which the CPU and GPU kernels prefer."""
        return self.to(memory_format=torch.channels_last)
