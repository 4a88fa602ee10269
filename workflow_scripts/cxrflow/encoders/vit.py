"""A vision transformer with DeiT's parameter names (Dosovitskiy et al. 2021; Touvron et al. 2021).

MGCA's image encoder, of which MedCutMix mixes the patches of two images after a block: [CLS] stands
for the image. Written here because timm is not among the requirements.

Shapes: B images, L tokens, [CLS] first and then the patches row by row, D width, h x w grid.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from cxr_files.errors import InputError
from cxrflow.encoders.image_encoder import Frames, ImageTrunk, Patches, coloured, only_current
from cxrflow.encoders.settings import VitSettings

EPSILON = 1e-6  # of DeiT's layer normalisation
DEVIATION = 0.02  # of initial weights, as DeiT draws them


class PatchEmbedding(nn.Module):
    """Holds the embedding of pixels under its published name."""

    def __init__(self, settings: VitSettings) -> None:
        super().__init__()
        side = settings.patch
        self.proj = nn.Conv2d(settings.channels, settings.width, side, side)

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        return self.proj(pixels_BCHW)


class Attention(nn.Module):
    """Every token attends to all tokens, with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, states_BLD: Tensor) -> Tensor:
        qkv_BL3Hd = self.qkv(states_BLD).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv_BL3Hd.permute(2, 0, 3, 1, 4)
        context_BHLd = scaled_dot_product_attention(q, k, v)
        return self.proj(context_BHLd.transpose(1, 2).flatten(2))

    def of_cls(self, states_BLD: Tensor) -> Tensor:
        """Weights of [CLS] on each token, [B, heads, L]; fused attention does not return them."""
        qkv_BL3Hd = self.qkv(states_BLD).unflatten(2, (3, self.heads, -1))
        q_BHd, k_BLHd = qkv_BL3Hd[:, 0, 0], qkv_BL3Hd[:, :, 1]
        scores_BHL = torch.einsum("bhd,blhd->bhl", q_BHd, k_BLHd) / q_BHd.shape[-1] ** 0.5
        return scores_BHL.float().softmax(-1)


class Mlp(nn.Module):
    """A perceptron of two layers, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, states_BLD: Tensor) -> Tensor:
        return self.fc2(gelu(self.fc1(states_BLD)))


class Block(nn.Module):
    """Attention and a perceptron, each after a layer normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, EPSILON) for _ in range(2))
        self.attn, self.mlp = Attention(width, heads), Mlp(width)

    def forward(self, states_BLD: Tensor) -> Tensor:
        states_BLD = states_BLD + self.attn(self.norm1(states_BLD))
        return states_BLD + self.mlp(self.norm2(states_BLD))

    @torch.no_grad()
    def of_cls(self, states_BLD: Tensor) -> Tensor:
        """The attention of [CLS] to the states that enter, [B, heads, L]; without gradient."""
        return self.attn.of_cls(self.norm1(states_BLD.detach()))


class Trunk(ImageTrunk):
    """Patches of pixels and [CLS] through the blocks; a stage is a block.

    The features after a stage are [B, L, D]. They do not hold the attention of [CLS] to the patches
    in the last block. After the last stage that attention is the one of the images that went
    through the block most recently.
    """

    def __init__(self, settings: VitSettings) -> None:
        super().__init__()
        width, self.stages = settings.width, settings.blocks
        self.settings, self.features = settings, width
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + settings.grid**2, width))
        self.patch_embed = PatchEmbedding(settings)
        self.blocks = nn.ModuleList(Block(width, settings.heads) for _ in range(settings.blocks))
        self.norm = nn.LayerNorm(width, EPSILON)
        self._cls_attention: Tensor | None = None
        for token in (self.cls_token, self.pos_embed):
            nn.init.trunc_normal_(token, std=DEVIATION)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=DEVIATION)
                nn.init.zeros_(module.bias)

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        pixels_BCHW = coloured(only_current(frames), self.settings)
        self._require_size(pixels_BCHW)
        patches_BMD = self.patch_embed(pixels_BCHW).flatten(2).transpose(1, 2)
        cls_B1D = self.cls_token.expand(len(patches_BMD), -1, -1)
        states_BLD = torch.cat([cls_B1D, patches_BMD], dim=1) + self.pos_embed
        return Frames(self._run(states_BLD, 0, stage))

    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        states_BLD = self.norm(self._run(only_current(hidden), stage, self.stages))
        grid = (self.settings.grid, self.settings.grid)
        grid_BDhw = states_BLD[:, 1:].transpose(1, 2).unflatten(2, grid)
        attention = self._cls_attention
        assert attention is not None
        return Patches(grid_BDhw, states_BLD[:, 0], attention[:, :, 1:].unflatten(2, grid))

    def _run(self, states_BLD: Tensor, first: int, last: int) -> Tensor:
        for number in range(first, last):
            if number == self.stages - 1:
                self._cls_attention = self.blocks[number].of_cls(states_BLD)  # type: ignore[operator]
            states_BLD = self.blocks[number](states_BLD)
        return states_BLD

    def _require_size(self, pixels_BCHW: Tensor) -> None:
        """An image must have as many patches as there are positions."""
        patch, grid = self.settings.patch, self.settings.grid
        height, width = pixels_BCHW.shape[2:]
        if (height, width) != (patch * grid, patch * grid):
            raise InputError(
                f"settings: key 'encoder.grid' is {grid}, of patches of {patch} pixels, but images "
                f"are of {height} x {width}; expected {patch * grid} x {patch * grid}"
            )

    def compile_parts(self, options: dict[str, Any]) -> None:
        """Compile each block with these ``options`` of torch.compile."""
        for block in self.blocks:
            block.compile(**options)
