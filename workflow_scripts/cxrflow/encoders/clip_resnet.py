"""CLIP's modified ResNet, with its published parameter names (Radford et al. 2021, section 2.4).

Three convolutions make the stem, an average pooling stands before each convolution that would have
a stride, and attention pools the last grid: the mean of its cells asks all cells.

The positions of the attention pooling are resized to the grid, so images may be of any size. A
patch has what it contributes to the pooled vector, its value after the output layer. The published
code has no features of patches; these are as in MaskCLIP (Zhou et al. 2022), but keep the
positions.

Shapes: B images, F features, h x w grid, L = 1 + h w tokens of the pooling, the mean first.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, scaled_dot_product_attention

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.image_encoder import Frames, ImageTrunk, Patches, coloured, only_current
from cxrflow.encoders.settings import ClipResNetSettings

STAGES, EXPANSION, HEAD_WIDTH = 4, 4, 64
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions of stride 1 with a shortcut; pooling shrinks the grid."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.avgpool = nn.AvgPool2d(stride)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride > 1 or inputs != outputs:
            shortcut = {
                "-1": nn.AvgPool2d(stride),
                "0": nn.Conv2d(inputs, outputs, 1, bias=False),
                "1": nn.BatchNorm2d(outputs),
            }
            self.downsample = nn.Sequential(OrderedDict(shortcut))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.avgpool(self.relu(self.bn2(self.conv2(out))))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


def bicubic_filter(cells: int, size: int) -> Tensor:
    """The weights [size, cells] with which ``cells`` of an axis are resized to ``size``."""
    each = torch.eye(cells)[:, None, None]
    return interpolate(each, (1, size), mode="bicubic", antialias=True)[:, 0, 0].T


class AttentionPool(nn.Module):
    """The mean of the cells attends to itself and to all cells, with heads of 64 features."""

    def __init__(self, grid: int, width: int, outputs: int) -> None:
        super().__init__()
        self.grid, self.heads = grid, max(1, width // HEAD_WIDTH)
        self.positional_embedding = nn.Parameter(torch.randn(grid**2 + 1, width) / width**0.5)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.c_proj = nn.Linear(width, outputs)
        for layer in (self.q_proj, self.k_proj, self.v_proj, self.c_proj):
            nn.init.normal_(layer.weight, std=width**-0.5)

    def positions(self, height: int, width: int) -> Tensor:
        """Return the positions [L, C] of a grid; those of the cells resized by bicubic filter."""
        if (height, width) == (self.grid, self.grid):
            return self.positional_embedding
        mean_1C, cells_LC = self.positional_embedding[:1], self.positional_embedding[1:]
        cells_1Cgg = cells_LC.T.unflatten(1, (self.grid, self.grid))[None]
        if not cells_1Cgg.is_cuda:
            resized_1Chw = interpolate(cells_1Cgg, (height, width), mode="bicubic", antialias=True)
        else:  # where the gradient of that filter is not the same from run to run
            rows_hg, columns_wg = (
                sent(bicubic_filter(self.grid, size), cells_1Cgg.device) for size in (height, width)
            )
            with torch.autocast(cells_1Cgg.device.type, enabled=False):
                resized_1Chw = rows_hg @ cells_1Cgg @ columns_wg.T
        return torch.cat([mean_1C, resized_1Chw[0].flatten(1).T])

    def forward(self, grid_BChw: Tensor) -> Patches:
        height, width = grid_BChw.shape[2:]
        cells_BLC = grid_BChw.flatten(2).mT
        tokens_BLC = torch.cat([cells_BLC.mean(1, keepdim=True), cells_BLC], dim=1)
        tokens_BLC = tokens_BLC + self.positions(height, width)
        value_BLC = self.v_proj(tokens_BLC)
        q, k, v = (
            states.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for states in (self.q_proj(tokens_BLC[:, :1]), self.k_proj(tokens_BLC), value_BLC)
        )
        context_BC = scaled_dot_product_attention(q, k, v).flatten(1)
        patches_BMF = self.c_proj(value_BLC[:, 1:])
        return Patches(patches_BMF.mT.unflatten(2, (height, width)), self.c_proj(context_BC))


class Trunk(ImageTrunk):
    """Stem, four stages and attention pooling."""

    stages = STAGES

    def __init__(self, settings: ClipResNetSettings) -> None:
        super().__init__()
        self.settings, self.features = settings, settings.outputs
        width = settings.width
        self.conv1 = nn.Conv2d(settings.channels, width // 2, 3, 2, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width // 2)
        self.conv2 = nn.Conv2d(width // 2, width // 2, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width // 2)
        self.conv3 = nn.Conv2d(width // 2, width, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.relu, self.avgpool = nn.ReLU(inplace=True), nn.AvgPool2d(2)
        inputs = width
        for number, depth in enumerate(settings.layers):
            inner = width * 2**number
            blocks = [Bottleneck(inputs, inner, 1 if number == 0 else 2)]
            inputs = inner * EXPANSION
            blocks += [Bottleneck(inputs, inner, 1) for _ in range(depth - 1)]
            setattr(self, f"layer{number + 1}", nn.Sequential(*blocks))
        self.attnpool = AttentionPool(settings.grid, inputs, settings.outputs)

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        hidden = self._pixels(only_current(frames))
        for number in (1, 2, 3):
            convolution, norm = getattr(self, f"conv{number}"), getattr(self, f"bn{number}")
            hidden = self.relu(norm(convolution(hidden)))
        return Frames(self._run(self.avgpool(hidden), 0, stage))

    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        pooled: Patches = self.attnpool(self._run(only_current(hidden), stage, STAGES))
        return pooled

    def freeze_pooling(self) -> None:
        for layer in (self.attnpool.q_proj, self.attnpool.k_proj):
            layer.requires_grad_(False)

    def _run(self, hidden: Tensor, first: int, last: int) -> Tensor:
        for number in range(first, last):
            hidden = getattr(self, f"layer{number + 1}")(hidden)
        return hidden

    def _pixels(self, pixels_B1HW: Tensor) -> Tensor:
        """Grey pixels as colours [B, C, H, W], normalised."""
        if self.settings.normalisation != "clip":
            return coloured(pixels_B1HW, self.settings)
        mean, deviation = (
            sent(torch.tensor(values, dtype=pixels_B1HW.dtype), pixels_B1HW.device)[:, None, None]
            for values in (MEAN, DEVIATION)
        )
        return (pixels_B1HW.expand(-1, 3, -1, -1) - mean) / deviation
