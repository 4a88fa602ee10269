"""DeiT's vision transformers as their authors publish them, trained on ImageNet (Touvron 2021).

``deit_base_patch16_224-b5f2ef4d.pth``, from which MGCA's image encoder starts, is a ViT-B/16 with a
classifier of 1,000 classes, which nothing reads. Names of parameters are ours. A state dict does
not say how many heads attend; all of DeiT's have 64 features.

Our own exports are such files: under ``model`` a transformer with a classifier of zeros, and beside
it, under ``projector``, the projection to the joint space. A JSON file beside them has the sizes.

Shapes: D width, L tokens of an image, P joint space.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from cxr_files.errors import InputError
from cxr_files.settings import from_record
from cxrflow.encoders.image_encoder import ImageEncoder, read_image_settings
from cxrflow.encoders.released.checkpoints import count, drop, read_checkpoint
from cxrflow.encoders.settings import VitSettings
from cxrflow.encoders.weights import load_weights, require_dimensions

CLASSES = 1000  # of ImageNet, which ``head`` is for
HEAD_WIDTH = 64
TRUNK, PROJECTOR = "encoder.", "projector."
POSITIONS, EMBEDDING = "pos_embed", "patch_embed.proj.weight"
DIMENSIONS = {POSITIONS: 3, EMBEDDING: 4}


def read_deit(path: Path, projection: int, seed: int) -> tuple[ImageEncoder, list[str]]:
    """The encoder, and the names of its projection, which is drawn from ``seed``.

    Raises:
        InputError: the file is missing or damaged, or its parameters are not a DeiT's.
    """
    weights = read_checkpoint(path, key="model")
    settings = sizes_of(weights, projection, path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        image = ImageEncoder(settings)
    weights = drop(weights, _classifier(settings), path, required=True)
    new = {name for name in image.state_dict() if name.startswith(PROJECTOR)}
    ours = {f"{TRUNK}{name}": value for name, value in weights.items()}
    return image, load_weights(image, ours, path, [new])


def read_exported(path: Path) -> ImageEncoder:
    """The encoder of a file that :func:`released_vit` made.

    Raises:
        InputError: the file, or the sizes beside it, are missing or damaged, or do not fit.
    """
    trunk, projector = (read_checkpoint(path, key=key) for key in ("model", "projector"))
    settings = read_image_settings(path.with_suffix(".json"))
    with torch.random.fork_rng(devices=[]):
        image = ImageEncoder(settings)
    if not isinstance(settings, VitSettings):
        raise InputError(f"{path.with_suffix('.json')}: kind is {settings.kind}; expected vit")
    trunk = drop(trunk, _classifier(settings), path, required=True)
    weights = {f"{TRUNK}{name}": value for name, value in trunk.items()}
    weights |= {f"{PROJECTOR}{name}": value for name, value in projector.items()}
    load_weights(image, weights, path)
    return image


def released_vit(image: ImageEncoder) -> dict[str, dict[str, Tensor]]:
    """The parameters of a transformer of ours in DeiT's layout, and those of its projection."""
    state = {name: value.detach().cpu().contiguous() for name, value in image.state_dict().items()}
    trunk, projector = (
        {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}
        for prefix in (TRUNK, PROJECTOR)
    )
    assert isinstance(image.settings, VitSettings)
    zeros = {name: torch.zeros(shape) for name, shape in _classifier(image.settings).items()}
    return {"model": trunk | zeros, "projector": projector}


def released_vit_name(settings: VitSettings) -> str:
    """A file name that tells the sizes."""
    side = settings.patch * settings.grid
    sizes = f"blocks{settings.blocks}_width{settings.width}_patch{settings.patch}_{side}"
    return f"vit_image_{sizes}_proj_size_{settings.projection}.pth"


def _classifier(settings: VitSettings) -> dict[str, tuple[int, ...]]:
    return {"head.weight": (CLASSES, settings.width), "head.bias": (CLASSES,)}


def sizes_of(weights: Mapping[str, Tensor], projection: int, path: Path) -> VitSettings:
    """The sizes that a state dict shows; an :class:`InputError` names what it lacks."""
    require_dimensions(weights, DIMENSIONS, path)
    width, channels, patch, _ = weights[EMBEDDING].shape
    values = {
        "blocks": count(weights, r"blocks\.#"),
        "width": width,
        "heads": max(1, width // HEAD_WIDTH),
        "patch": patch,
        "grid": math.isqrt(max(1, weights[POSITIONS].shape[1] - 1)),
        "channels": channels,
        "projection": projection,
    }
    settings: VitSettings = from_record(VitSettings, values, str(path))
    return settings
