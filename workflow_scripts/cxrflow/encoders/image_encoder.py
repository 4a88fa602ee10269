"""Image encoders: frames of pixels to the patches of a trunk, and to a joint space with texts.

A kind of trunk is a module ``cxrflow.encoders.<kind>`` with a ``Trunk``, which an image encoder
holds as ``encoder``, beside a projection (BioViL section 2.2). The module is imported by its name,
which the settings say, so another kind changes no other model's code. Parameter names are the
released ones (``encoder.encoder.*``, ``projector.model.*``).

Shapes: B studies, K of which have a prior, F features of the trunk, P joint space, h x w grid.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxr_files.atomic import read_object, require_whole
from cxr_files.settings import from_record
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.projection import ImageProjection
from cxrflow.encoders.settings import ImageEncoderKind, ImageEncoderSettings
from cxrflow.encoders.weights import load_weights, read_weights, save_weights

T = TypeVar("T")
U = TypeVar("U")

# Mean and deviation of the three channels.
NORMALISATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # torchvision's
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


class Frames(NamedTuple, Generic[T]):
    """Current images of B studies and the priors of K; pixels are [B, 1, H, W] and [K, 1, H, W].

    BioViL-T (section 3.1) compares the two. An encoder of one image takes frames without a prior;
    nothing else asks how many images there are.
    """

    current: T
    prior: T | None = None
    rows: Tensor | None = None  # int64 [K], the studies with a prior; None: all

    def each(self, change: Callable[[T], U]) -> "Frames[U]":
        """Apply ``change`` to the current images and to the priors, each for themselves."""
        prior = None if self.prior is None else change(self.prior)
        return Frames(change(self.current), prior, self.rows)


class Patches(NamedTuple):
    """Features of studies: of every cell of a grid, and of the whole."""

    grid: Tensor  # [B, F, h, w]
    pooled: Tensor  # [B, F]
    cls_attention: Tensor | None = None  # [B, heads, h, w], see ImageOutput


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

    def freeze_pooling(self) -> None:
        """Freeze what makes the pooled features alone, where nothing reads them."""


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
        sent(torch.tensor(values[: settings.channels], dtype=pixels.dtype), pixels.device)
        for values in NORMALISATIONS[settings.normalisation]
    )
    return (pixels - mean[:, None, None]) / deviation[:, None, None]


def pooled(grid_BFhw: Tensor) -> Patches:
    """A grid and the mean of its cells."""
    return Patches(grid_BFhw, grid_BFhw.mean((2, 3)))


def only_current(frames: Frames[Tensor]) -> Tensor:
    """The current images, for a trunk that takes one; a prior is a :class:`ValueError`."""
    if frames.prior is not None:
        raise ValueError("a prior image was given to an encoder of one image")
    return frames.current


class ImageOutput(NamedTuple):
    """Features of B studies, projected and not."""

    projected_global: Tensor  # [B, P], L2-normalised; BioViL's mean of the un-normalised patches
    projected_patches: Tensor  # [B, h, w, P], L2-normalised
    unnormalised_patches: Tensor  # [B, h, w, P], the same before
    pooled: Tensor  # [B, F], the trunk's, not projected
    # [B, heads, h, w], how [CLS] looks at the patches in a transformer's last block, without
    # gradient; with what it gives to itself a head's weights add up to 1. None: no [CLS].
    cls_attention: Tensor | None = None

    def rows(self, rows: slice) -> "ImageOutput":
        """The features of some of the studies."""
        features: list[Any] = [value if value is None else value[rows] for value in self]
        return ImageOutput(*features)


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
        projected_BP, projected_BhwP = self.projector(patches.grid, patches.pooled)
        return ImageOutput(
            normalize(projected_BP, dim=1),
            normalize(projected_BhwP, dim=3),
            projected_BhwP,
            patches.pooled,
            patches.cls_attention,
        )


def save_image_encoder(image: ImageEncoder, folder: Path) -> None:
    """Write ``image/config.json`` and ``image/model.safetensors``."""
    save_weights(folder / "image", image.settings.model_dump(mode="json"), image.state_dict())


def load_image_encoder(folder: Path, trunk_alone: bool = False) -> ImageEncoder:
    """Read the image encoder; every parameter must be there and none may be left over.

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
    """The sizes of an image encoder; an :class:`InputError` names the key that is wrong."""
    require_whole(path)
    settings: ImageEncoderSettings = from_record(ImageEncoderKind, read_object(path), str(path))
    return settings
