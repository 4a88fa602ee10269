"""The image half of BioViL: a ResNet and a projection of its patches to the joint space.

BioViL section 2.2 and Appendix E.2: the projection is a two-layer perceptron of 1x1 convolutions
with batch normalisation, applied to the patches before they are averaged. Parameter names are the
released ones (``encoder.encoder.*``, ``projector.model.*``).

Shapes: B images, F trunk features, P joint space, h x w grid.
"""

from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor, nn

from cxrflow.command import explain
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.encoders.weights import load_weights, read_weights
from cxrflow.errors import InputError
from cxrflow.files import read_object, write_json


class ImageOutput(NamedTuple):
    """What the image half gives for B images."""

    projected_global: Tensor  # [B, P], L2-normalised mean of the un-normalised patches
    projected_patches: Tensor  # [B, h, w, P], L2-normalised
    unnormalised_patches: Tensor  # [B, h, w, P], the same before


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
        projected_BhwP = projected_BPhw.permute(0, 2, 3, 1)
        return ImageOutput(
            nn.functional.normalize(projected_BPhw.mean((2, 3)), dim=1),
            nn.functional.normalize(projected_BhwP, dim=3),
            projected_BhwP,
        )


def save_image_half(image: ImageEncoder, folder: Path) -> None:
    """Write ``image/config.json`` and ``image/model.safetensors``."""
    target = folder / "image"
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / "config.json", image.settings.model_dump(mode="json"))
    state = {name: value.contiguous() for name, value in image.state_dict().items()}
    save_file(state, target / "model.safetensors")


def load_image_half(folder: Path) -> ImageEncoder:
    """Read the image half; every parameter must be there and none may be left over."""
    source = folder / "image"
    image = ImageEncoder(read_image_settings(source / "config.json"))
    path = source / "model.safetensors"
    load_weights(image, read_weights(path), path)
    return image


def read_image_settings(path: Path) -> ImageEncoderSettings:
    """The sizes of an image half; an :class:`InputError` names the key that is wrong."""
    try:
        return ImageEncoderSettings.model_validate(read_object(path))
    except ValidationError as error:
        raise InputError(explain(error, str(path))) from None
