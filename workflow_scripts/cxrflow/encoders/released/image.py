"""Image encoders as their authors publish them: BioViL's, BioViL-T's, torchvision's for ImageNet.

BioViL section 2.2 and Appendix E.2, BioViL-T section 3.1. BioViL's file is the state dict of a
torchvision ResNet-50 with a projection; its layer ``fc``, which nothing reads, is in it, and in
BioViL-T's, which adds what compares two images. A state dict does not say where stride was replaced
by dilation, nor how many heads attend: our own exports say it in a JSON file beside the weights.

Shapes: F features of the trunk, P joint space.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cxr_files.errors import InputError
from cxr_files.settings import from_record
from cxrflow.encoders.image_encoder import ImageEncoder, read_image_settings
from cxrflow.encoders.released.checkpoints import count, drop, read_checkpoint
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ConvolutionalSettings, MultiImageSettings, ResNetSettings
from cxrflow.encoders.weights import load_weights, require_dimensions

TRUNK = "encoder.encoder."
PROJECTOR = "projector."
COUNTER = ".num_batches_tracked"
CLASSES = 1000  # of ImageNet, which ``fc`` was for
STEM, LAST = f"{TRUNK}conv1.weight", "projector.model.3.weight"
COMPARISON = "encoder.vit_pooler."
# Settings that a state dict does not show, or, where a tensor may have been lost, is not asked for.
NO_WEIGHTS: dict[str, Any] = {
    **dict.fromkeys(("dilate", "stem_pool", "normalisation"), True),
    "comparison": {"heads", "dropout", "drop_path", "time_encoding", "decomposition"},
}


def read_released_image(
    path: Path, imagenet: bool, projection: int, seed: int
) -> tuple[ImageEncoder, list[str]]:
    """A published image encoder, and the names of what is new, drawn from ``seed``.

    BioViL's (``imagenet`` false) must be complete. torchvision's has no projection, so that
    ``projection`` says its width, and its older files do not count batches.

    Raises:
        InputError: the file is missing or damaged, or its parameters are not a ResNet's.
    """
    weights = read_checkpoint(path)
    if imagenet:
        weights = {f"{TRUNK}{name}": value for name, value in weights.items()}
    settings = sizes_of(weights, projection if imagenet else None, path)
    beside = path.with_suffix(".json")
    if not imagenet and beside.is_file():
        exported = read_image_settings(beside)
        same = exported.model_dump(exclude=NO_WEIGHTS) == settings.model_dump(exclude=NO_WEIGHTS)
        if not (same and isinstance(exported, ConvolutionalSettings)):
            raise InputError(f"{beside}: sizes of other weights than those of {path.name}")
        settings = exported
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        image = ImageEncoder(settings)
    weights = drop(weights, _fc_shapes(image), path, required=True)
    names = image.state_dict().keys()
    optional = []
    if imagenet:
        optional = [
            {name for name in names if name.startswith(PROJECTOR)},
            {name for name in names if name.startswith(TRUNK) and name.endswith(COUNTER)},
        ]
    return image, load_weights(image, weights, path, optional)


def sizes_of(
    weights: Mapping[str, Tensor], projection: int | None, path: Path
) -> ConvolutionalSettings:
    """The sizes that a state dict with our names shows; ``projection`` where it has none."""
    needed = (STEM,) if projection is not None else (STEM, LAST)
    require_dimensions(weights, dict.fromkeys(needed, 4), path)
    values: dict[str, Any] = {
        "block": "bottleneck" if f"{TRUNK}layer1.0.conv3.weight" in weights else "basic",
        "layers": [count(weights, rf"{TRUNK}layer{stage}\.#") for stage in (1, 2, 3, 4)],
        "width": weights[STEM].shape[0],
        "channels": weights[STEM].shape[1],
        "projection": weights[LAST].shape[0] if projection is None else projection,
    }
    comparison = _comparison_of(weights)
    kind: type[ConvolutionalSettings] = ResNetSettings
    if comparison is not None:
        kind, values["comparison"] = MultiImageSettings, comparison
    settings: ConvolutionalSettings = from_record(kind, values, str(path))
    return settings


def _comparison_of(weights: Mapping[str, Tensor]) -> dict[str, Any] | None:
    """The sizes of the transformer that compares images, None if a state dict has none."""
    stem = weights.get("encoder.backbone_to_vit.weight")
    if stem is None:
        return None
    perceptron = weights.get(f"{COMPARISON}blocks.0.mlp.fc1.weight")
    sizes = {"blocks": count(weights, rf"{COMPARISON}blocks\.#"), "width": len(stem)}
    if perceptron is not None:
        sizes["feed_forward"] = len(perceptron)
    return sizes


def _fc_shapes(image: ImageEncoder) -> dict[str, tuple[int, ...]]:
    resnet = image.encoder.encoder
    assert isinstance(resnet, ResNet)
    features = resnet.features
    return {f"{TRUNK}fc.weight": (CLASSES, features), f"{TRUNK}fc.bias": (CLASSES,)}


def released_image(image: ImageEncoder) -> dict[str, Tensor]:
    """The parameters of an encoder of ours by their released names, with an ``fc`` of zeros."""
    state = {name: value.detach().cpu().contiguous() for name, value in image.state_dict().items()}
    return state | {name: torch.zeros(shape) for name, shape in _fc_shapes(image).items()}


def released_image_name(settings: ConvolutionalSettings) -> str:
    """The released file's name for its sizes; for others one that tells them."""
    model, trunk = "biovil_image", "resnet50"
    if settings.takes_prior:
        model, trunk = "biovil_t_image", "model"
    unsaid = {**NO_WEIGHTS, "projection": True}
    published = type(settings).model_validate({})
    if settings.model_dump(exclude=unsaid) != published.model_dump(exclude=unsaid):
        depths = "-".join(map(str, settings.layers))
        trunk = f"{settings.block}{depths}_width{settings.width}_channels{settings.channels}"
    return f"{model}_{trunk}_proj_size_{settings.projection}.pt"
