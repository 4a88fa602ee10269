"""The image half: a trunk and a projection of its features to the joint space (BioViL section 2.2).

Parameter names are the released ones (``encoder.encoder.*``, ``projector.model.*``).

Shapes: B studies, F trunk features, P joint space, h x w grid.
"""

from pathlib import Path
from typing import NamedTuple

from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.encoders.frames import Frames
from cxrflow.encoders.projection import ImageProjection
from cxrflow.encoders.settings import ImageEncoderKind, ImageEncoderSettings
from cxrflow.encoders.trunk import Patches, build_trunk
from cxrflow.encoders.weights import load_weights, read_weights
from cxrflow.files.atomic import read_object, write_json
from cxrflow.settings import from_record


class ImageOutput(NamedTuple):
    """Features of B studies, projected and not."""

    projected_global: Tensor  # [B, P], L2-normalised; BioViL's mean of the un-normalised patches
    projected_patches: Tensor  # [B, h, w, P], L2-normalised
    unnormalised_patches: Tensor  # [B, h, w, P], the same before
    pooled: Tensor  # [B, F], the trunk's, not projected


class ImageEncoder(nn.Module):
    """Frames of pixels in [0, 1] to an :class:`ImageOutput`."""

    def __init__(self, settings: ImageEncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = build_trunk(settings)
        # Image pretraining keeps the trunk alone.
        self.projector: ImageProjection | None = settings.projection_head.code("ImageHead")(
            self.encoder.features, settings.projection, settings.projection_head
        )

    @property
    def takes_prior(self) -> bool:
        """True if it compares an image with its prior."""
        return self.settings.takes_prior

    def forward(self, frames: Frames[Tensor]) -> ImageOutput:
        return self.project(self.encoder(frames))

    def project(self, patches: Patches) -> ImageOutput:
        """Project the trunk's patches of B studies to the joint space."""
        assert self.projector is not None
        projected_BP, projected_BhwP = self.projector(*patches)
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
    settings: ImageEncoderSettings = from_record(ImageEncoderKind, read_object(path), str(path))
    return settings
