"""DeiT's vision transformers as their authors publish them, trained on ImageNet (Touvron 2021).

``deit_base_patch16_224-b5f2ef4d.pth``, from which MGCA's image encoder starts, is a ViT-B/16 with a
classifier of 1,000 classes, which nothing reads. Names of parameters are ours. A state dict does
not say how many heads attend; all of DeiT's have 64 features.

Shapes: D width, L tokens of an image, P joint space.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor

from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.released.checkpoints import drop, read_checkpoint
from cxrflow.encoders.settings import VitSettings
from cxrflow.encoders.weights import load_weights, require_fit
from cxrflow.errors import InputError
from cxrflow.settings import explain

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
    classifier = {"head.weight": (CLASSES, settings.width), "head.bias": (CLASSES,)}
    weights = drop(weights, classifier, path, required=True)
    new = {name for name in image.state_dict() if name.startswith(PROJECTOR)}
    ours = {f"{TRUNK}{name}": value for name, value in weights.items()}
    return image, load_weights(image, ours, path, [new])


def sizes_of(weights: Mapping[str, Tensor], projection: int, path: Path) -> VitSettings:
    """The sizes that a state dict shows; an :class:`InputError` names what it lacks."""
    require_fit([f"{name} is missing" for name in DIMENSIONS if name not in weights], path)
    require_fit(
        [
            f"{name} has shape {list(weights[name].shape)}, expected {count} sizes"
            for name, count in DIMENSIONS.items()
            if weights[name].dim() != count
        ],
        path,
    )
    blocks = [int(number[1]) for name in weights if (number := re.match(r"blocks\.(\d+)\.", name))]
    width, channels, patch, _ = weights[EMBEDDING].shape
    values = {
        "blocks": max(blocks, default=0) + 1,
        "width": width,
        "heads": max(1, width // HEAD_WIDTH),
        "patch": patch,
        "grid": math.isqrt(max(1, weights[POSITIONS].shape[1] - 1)),
        "channels": channels,
        "projection": projection,
    }
    try:
        return VitSettings.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, str(path))) from None
