"""CLIP with a ResNet as its authors publish it: both encoders in one state dict (``clip_resnet*``).

The published ``RN50.pt`` is an archive of code and weights. No code that comes with weights is run
here, so its state dict is what is read (docs/weights.md). Sizes follow from the shapes; every head
of either encoder has 64 features.

Shapes: C channels, D width of the text encoder, F features of the last stage, P joint space.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cxr_files.settings import from_record
from cxrflow.encoders.clip_text import ClipTextConfig, TextEncoder
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.released.checkpoints import Shape, count, drop, read_checkpoint
from cxrflow.encoders.settings import ClipResNetSettings
from cxrflow.encoders.weights import load_weights, require_dimensions

HEAD_WIDTH = 64
ADDED = 3  # pieces that CLIP lacks: [PAD], [UNK], [MASK]
# The learnt temperature, which terms here have as a setting, and what an archive says of itself.
SCALE: dict[str, Shape] = {"logit_scale": ()}
RECORD: dict[str, Shape] = dict.fromkeys(("input_resolution", "context_length", "vocab_size"), ())
TEXT = {
    "token_embedding.weight": "bert.embeddings.word_embeddings.weight",
    "positional_embedding": "bert.embeddings.position_embeddings.weight",
    "text_projection": "cls_projection_head.dense_to_output.weight",
    "ln_final.weight": "bert.final.weight",
    "ln_final.bias": "bert.final.bias",
}
BLOCKS = "transformer.resblocks."
DIMENSIONS = {
    "visual.conv1.weight": 4,
    "visual.attnpool.positional_embedding": 2,
    "visual.attnpool.c_proj.weight": 2,
    **dict.fromkeys(("token_embedding.weight", "positional_embedding", "text_projection"), 2),
}


def read_clip(path: Path) -> tuple[TextEncoder, ImageEncoder]:
    """Both encoders; [PAD], [UNK] and [MASK], which CLIP lacks, have embeddings of zeros.

    Raises:
        InputError: the file is missing or damaged, or its parameters are not such a CLIP's.
    """
    weights = read_checkpoint(path)
    weights = drop(weights, RECORD, path, required=False)
    weights = drop(weights, SCALE, path, required=True)
    config, settings = sizes_of(weights, path)
    ours = {_our_name(name): value.float() for name, value in weights.items()}
    projection, words = TEXT["text_projection"], TEXT["token_embedding.weight"]
    ours[projection] = ours[projection].T
    added_D = ours[words].new_zeros(ADDED, ours[words].shape[1])
    ours[words] = torch.cat([ours[words], added_D])
    with torch.random.fork_rng(devices=[]):
        text, image = TextEncoder(config), ImageEncoder(settings)
    names = image.state_dict().keys()
    load_weights(image, {name: x for name, x in ours.items() if name in names}, path)
    load_weights(text, {name: x for name, x in ours.items() if name not in names}, path)
    return text, image


def _our_name(name: str) -> str:
    """The name of a published parameter in one of our encoders."""
    if name.startswith("visual."):
        return f"encoder.{name.removeprefix('visual.')}"
    if name.startswith(BLOCKS):
        return f"bert.encoder.layer.{name.removeprefix(BLOCKS)}"
    return TEXT.get(name, name)


def sizes_of(
    weights: Mapping[str, Tensor], path: Path
) -> tuple[ClipTextConfig, ClipResNetSettings]:
    """The sizes that a state dict shows; an :class:`InputError` names what it lacks."""
    require_dimensions(weights, DIMENSIONS, path)
    pieces, width = weights["token_embedding.weight"].shape
    joint = weights["text_projection"].shape[1]
    text: dict[str, Any] = {
        "vocab_size": pieces + ADDED,
        "hidden_size": width,
        "num_hidden_layers": count(weights, rf"{BLOCKS}#"),
        "num_attention_heads": max(1, width // HEAD_WIDTH),
        "intermediate_size": 4 * width,
        "max_position_embeddings": len(weights["positional_embedding"]),
        "pad_token_id": pieces,
        "projection_size": joint,
    }
    stem = weights["visual.conv1.weight"]
    places = len(weights["visual.attnpool.positional_embedding"])
    image: dict[str, Any] = {
        "layers": [count(weights, rf"visual\.layer{stage}\.#") for stage in (1, 2, 3, 4)],
        "width": 2 * len(stem),
        "channels": stem.shape[1],
        "grid": max(1, math.isqrt(max(0, places - 1))),
        "outputs": len(weights["visual.attnpool.c_proj.weight"]),
        "projection": joint,
    }
    sizes = ((ClipTextConfig, text), (ClipResNetSettings, image))
    config, settings = (from_record(kind, values, str(path)) for kind, values in sizes)
    return config, settings
