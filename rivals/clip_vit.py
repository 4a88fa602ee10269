"""CLIP's vision transformer, ViT-B/32 as published, and the text encoder in the same file.

Radford et al. 2021, section 2.4. [CLS] stands for the image, and a matrix brings it to the joint
space. A patch has what the same matrix gives of its state (ours: the published code has no features
of patches). Pixels are normalised as CXR-RePaiR's public code does, by mean and deviation of its
radiographs.

Shapes: B images, L tokens, [CLS] first, D width, P joint space, h x w grid.
"""

import math
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.encoders.clip_text import ClipTextConfig, Perceptron, TextEncoder
from cxrflow.encoders.image_encoder import Frames, Patches, only_current
from cxrflow.encoders.released.clip import ADDED, BLOCKS, HEAD_WIDTH, TEXT
from cxrflow.encoders.released.outside import PublishedTrunk, Tensors
from cxrflow.encoders.settings import ClipHeadSettings, ImageEncoderSettings, ProjectionHeadKind
from cxrflow.encoders.weights import load_weights

MEAN, DEVIATION = 101.48761 / 255, 83.43944 / 255
RECORD = ("input_resolution", "context_length", "vocab_size")  # what an archive says of itself


class ClipVitSettings(ImageEncoderSettings):
    """Sizes; the defaults are ViT-B/32."""

    has_cls = True

    kind: str
    blocks: int = Field(12, ge=1)
    width: int = Field(768, ge=HEAD_WIDTH, multiple_of=HEAD_WIDTH, description="64 a head")
    patch: int = Field(32, ge=1, description="pixels of a patch's side")
    grid: int = Field(7, ge=1, description="patches of an image's side")
    projection: int = Field(512, ge=2, description="width of the joint space")
    projection_head: ProjectionHeadKind = ClipHeadSettings()

    @property
    def depth(self) -> int:
        return self.blocks


class Block(nn.Module):
    """Attention and a perceptron, each after a layer normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, width // HEAD_WIDTH, batch_first=True)
        self.mlp = Perceptron(width, 4 * width)

    def forward(self, states_BLD: Tensor) -> Tensor:
        normal_BLD = self.ln_1(states_BLD)
        attended_BLD, _ = self.attn(normal_BLD, normal_BLD, normal_BLD, need_weights=False)
        states_BLD = states_BLD + attended_BLD
        return states_BLD + self.mlp(self.ln_2(states_BLD))


class ClipVit(PublishedTrunk):
    """The transformer under its published names; a stage is a block."""

    settings: ClipVitSettings
    file = "clip_vit*"
    vocabulary: ClassVar[str | None] = "bpe_simple_vocab_16e6.txt.gz"

    def __init__(self, settings: ClipVitSettings) -> None:
        super().__init__()
        width, self.stages = settings.width, settings.blocks
        self.settings, self.features = settings, settings.projection
        scale, tokens = width**-0.5, settings.grid**2 + 1
        self.conv1 = nn.Conv2d(settings.channels, width, settings.patch, settings.patch, bias=False)
        self.class_embedding = nn.Parameter(scale * torch.randn(width))
        self.positional_embedding = nn.Parameter(scale * torch.randn(tokens, width))
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.transformer = nn.ModuleDict(
            {"resblocks": nn.ModuleList(Block(width) for _ in range(settings.blocks))}
        )
        self.proj = nn.Parameter(scale * torch.randn(width, settings.projection))

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        pixels_B1HW = only_current(frames)
        side = self.settings.grid * self.settings.patch
        if pixels_B1HW.shape[2:] != (side, side):
            raise InputError(
                f"settings: key 'encoder.grid' is {self.settings.grid}, of patches of "
                f"{self.settings.patch} pixels, but images are of {tuple(pixels_B1HW.shape[2:])}; "
                f"expected {side} x {side}"
            )
        pixels_BCHW = ((pixels_B1HW - MEAN) / DEVIATION).expand(-1, self.settings.channels, -1, -1)
        patches_BMD = self.conv1(pixels_BCHW).flatten(2).mT
        cls_B1D = self.class_embedding.expand(len(patches_BMD), 1, -1)
        states_BLD = torch.cat([cls_B1D, patches_BMD], dim=1) + self.positional_embedding
        return Frames(self._run(self.ln_pre(states_BLD), 0, stage))

    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        states_BLD = self.ln_post(self._run(only_current(hidden), stage, self.stages))
        tokens_BLP = states_BLD @ self.proj
        grid = (self.settings.grid, self.settings.grid)
        return Patches(tokens_BLP[:, 1:].mT.unflatten(2, grid), tokens_BLP[:, 0])

    def _run(self, states_BLD: Tensor, first: int, last: int) -> Tensor:
        for number in range(first, last):
            states_BLD = self.transformer["resblocks"][number](states_BLD)  # type: ignore[index]
        return states_BLD

    @classmethod
    def sizes_of(cls, weights: Tensors) -> dict[str, Any]:
        width, channels, patch, _ = weights["visual.conv1.weight"].shape
        blocks = sum(
            name.startswith("visual.transformer") and name.endswith("ln_1.bias") for name in weights
        )
        return {
            "blocks": blocks,
            "width": width,
            "patch": patch,
            "grid": math.isqrt(len(weights["visual.positional_embedding"]) - 1),
            "channels": channels,
            "projection": weights["visual.proj"].shape[1],
        }

    @classmethod
    def state_of(cls, weights: Tensors) -> dict[str, Tensor]:
        weights.drop("logit_scale", *(name for name in [*weights] if name in RECORD))
        names = [name for name in [*weights] if name.startswith("visual.")]
        return {name.removeprefix("visual."): weights[name].float() for name in names}

    @classmethod
    def text_of(cls, weights: Tensors) -> TextEncoder:
        """CLIP's text encoder; [PAD], [UNK] and [MASK], which it lacks, are zeros."""
        names = [name for name in weights if not name.startswith("visual.")]
        ours = {
            TEXT.get(name, name.replace(BLOCKS, "bert.encoder.layer.")): weights[name].float()
            for name in names
            if name not in ("logit_scale", *RECORD)
        }
        pieces, width = weights["token_embedding.weight"].shape
        words, projection = TEXT["token_embedding.weight"], TEXT["text_projection"]
        ours[words] = torch.cat([ours[words], torch.zeros(ADDED, width)])
        ours[projection] = weights["text_projection"].float().T
        config = ClipTextConfig(
            vocab_size=pieces + ADDED,
            hidden_size=width,
            num_hidden_layers=sum(name.endswith("attn.in_proj_bias") for name in names),
            num_attention_heads=max(1, width // HEAD_WIDTH),
            intermediate_size=4 * width,
            max_position_embeddings=len(weights["positional_embedding"]),
            pad_token_id=pieces,
            projection_size=weights["text_projection"].shape[1],
        )
        with torch.random.fork_rng(devices=[]):
            text = TextEncoder(config)
        load_weights(text, ours, weights.path)
        return text
