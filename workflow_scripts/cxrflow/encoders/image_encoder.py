"""The image half: a trunk and a projection of its features to the joint space.

BioViL section 2.2 and Appendix E.2: the projection is a two-layer perceptron of 1x1 convolutions
with batch normalisation, applied to the patches before they are averaged. Parameter names are the
released ones (``encoder.encoder.*``, ``projector.model.*``).

Shapes: B studies, F trunk features, P joint space, h x w grid.
"""

from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.encoders.frames import Frames
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.encoders.trunk import Patches, build_trunk
from cxrflow.encoders.weights import load_weights, read_weights
from cxrflow.errors import InputError
from cxrflow.files.atomic import read_object, write_json
from cxrflow.settings import explain


class ImageOutput(NamedTuple):
    """What the image half gives for B studies."""

    projected_global: Tensor  # [B, P], L2-normalised; BioViL's mean of the un-normalised patches
    projected_patches: Tensor  # [B, h, w, P], L2-normalised
    unnormalised_patches: Tensor  # [B, h, w, P], the same before
    pooled: Tensor  # [B, F], the trunk's, not projected


class Projector(nn.Module):
    """The projection head: by patch (``biovil``), else of pooled and patch features alike."""

    def __init__(self, features: int, settings: ImageEncoderSettings) -> None:
        super().__init__()
        head, width = settings.projection_head, settings.projection
        hidden = head.hidden or features
        self.of_patches = head.kind == "biovil"
        if head.kind == "biovil":
            self.model = nn.Sequential(
                nn.Conv2d(features, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 1),
            )
        elif head.kind == "mlp":
            self.model = nn.Sequential(
                nn.Linear(features, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, width)
            )
        else:
            self.model = nn.Sequential(nn.Linear(features, width))

    def forward(self, patches: Patches) -> tuple[Tensor, Tensor]:
        """Whole studies [B, P] and their patches [B, h, w, P], not normalised."""
        if self.of_patches:
            projected_BPhw = self.model(patches.grid).float()
            # Before the mean: the gradient, summed the other way round, has the layout of this one.
            projected_BhwP = projected_BPhw.permute(0, 2, 3, 1)
            return projected_BPhw.mean((2, 3)), projected_BhwP
        projected_BhwP = self.model(patches.grid.permute(0, 2, 3, 1)).float()
        return self.model(patches.pooled).float(), projected_BhwP


class ImageEncoder(nn.Module):
    """Frames of pixels in [0, 1] to an :class:`ImageOutput`."""

    def __init__(self, settings: ImageEncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = build_trunk(settings)
        # Image pretraining keeps the trunk alone.
        self.projector: Projector | None = Projector(self.encoder.features, settings)

    @property
    def takes_prior(self) -> bool:
        """Whether it compares an image with its prior."""
        return self.encoder.takes_prior

    def forward(self, frames: Frames[Tensor]) -> ImageOutput:
        assert self.projector is not None
        patches = self.encoder(frames)
        projected_BP, projected_BhwP = self.projector(patches)
        return ImageOutput(
            normalize(projected_BP, dim=1),
            normalize(projected_BhwP, dim=3),
            projected_BhwP,
            patches.pooled,
        )


def save_image_half(image: ImageEncoder, folder: Path) -> None:
    """Write ``image/config.json`` and ``image/model.safetensors``."""
    target = folder / "image"
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / "config.json", image.settings.model_dump(mode="json"))
    state = {name: value.contiguous() for name, value in image.state_dict().items()}
    save_file(state, target / "model.safetensors")


def load_image_half(folder: Path, trunk_alone: bool = False) -> ImageEncoder:
    """Read the image half; every parameter must be there and none may be left over.

    ``trunk_alone``: it may have no projection, and then has none.
    """
    source = folder / "image"
    image = ImageEncoder(read_image_settings(source / "config.json"))
    path = source / "model.safetensors"
    weights = read_weights(path)
    if trunk_alone and not any(name.startswith("projector.") for name in weights):
        image.projector = None
    load_weights(image, weights, path)
    return image


def read_image_settings(path: Path) -> ImageEncoderSettings:
    """The sizes of an image half; an :class:`InputError` names the key that is wrong."""
    try:
        return ImageEncoderSettings.model_validate(read_object(path))
    except ValidationError as error:
        raise InputError(explain(error, str(path))) from None
