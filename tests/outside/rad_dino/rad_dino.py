"""RAD-DINO (Perez-Garcia et al. 2025): a ViT-B/14 by DINOv2, with the weights that are published.

Beside DeiT's transformer each branch of a block has a scale, and pixels are normalised by the mean
and deviation of radiographs. Names of tensors are those of transformers' ``Dinov2Model``.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.released.outside import PublishedTrunk, Tensors
from cxrflow.encoders.settings import VitSettings
from cxrflow.encoders.vit import Block, Trunk

MEAN, DEVIATION = 0.5307, 0.2583  # of the pixels, in preprocessor_config.json
HEAD_WIDTH = 64
# Ours and theirs, of the trunk and of each block.
NAMES = {
    "cls_token": "embeddings.cls_token",
    "pos_embed": "embeddings.position_embeddings",
    "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight",
    "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
    "norm.weight": "layernorm.weight",
    "norm.bias": "layernorm.bias",
}
PARTS = {
    "norm1": "norm1",
    "attn.proj": "attention.output.dense",
    "norm2": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}


class RadDinoSettings(VitSettings):
    """Those of the transformer; the defaults are the published ones."""

    kind: str  # type: ignore[assignment]
    patch: int = 14
    grid: int = 37


class ScaledBlock(Block):
    """A block whose branches have a scale for each feature."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.scale1, self.scale2 = (nn.Parameter(torch.ones(width)) for _ in range(2))

    def forward(self, states_BLD: Tensor) -> Tensor:
        states_BLD = states_BLD + self.scale1 * self.attn(self.norm1(states_BLD))
        return states_BLD + self.scale2 * self.mlp(self.norm2(states_BLD))


class RadDino(Trunk, PublishedTrunk):
    """The transformer; a stage is a block."""

    settings: RadDinoSettings
    file = "model.safetensors"
    geometry = "shorter518crop518"

    def __init__(self, settings: RadDinoSettings) -> None:
        super().__init__(settings)
        sizes = settings.width, settings.heads
        self.blocks = nn.ModuleList(ScaledBlock(*sizes) for _ in range(settings.blocks))

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        return super().forward_until(frames.each(lambda x: (x - MEAN) / DEVIATION), stage)

    @classmethod
    def sizes_of(cls, weights: Tensors) -> dict[str, Any]:
        width, channels, patch, _ = weights[NAMES["patch_embed.proj.weight"]].shape
        return {
            "blocks": sum(name.endswith("layer_scale1.lambda1") for name in weights),
            "width": width,
            "heads": max(1, width // HEAD_WIDTH),
            "patch": patch,
            "grid": math.isqrt(weights[NAMES["pos_embed"]].shape[1] - 1),
            "channels": channels,
        }

    @classmethod
    def state_of(cls, weights: Tensors) -> dict[str, Tensor]:
        weights.drop("embeddings.mask_token")  # of its training
        state = {ours: weights[theirs] for ours, theirs in NAMES.items()}
        for number in range(cls.sizes_of(weights)["blocks"]):
            ours, theirs = f"blocks.{number}", f"encoder.layer.{number}"
            for kind in ("weight", "bias"):
                attention = f"{theirs}.attention.attention"
                qkv = [weights[f"{attention}.{part}.{kind}"] for part in ("query", "key", "value")]
                state[f"{ours}.attn.qkv.{kind}"] = torch.cat(qkv)
                for name, published in PARTS.items():
                    state[f"{ours}.{name}.{kind}"] = weights[f"{theirs}.{published}.{kind}"]
            for part in (1, 2):
                state[f"{ours}.scale{part}"] = weights[f"{theirs}.layer_scale{part}.lambda1"]
        return state
