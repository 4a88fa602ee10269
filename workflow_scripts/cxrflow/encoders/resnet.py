"""ResNet with torchvision's parameter names and an optional finer output grid.

He et al. 2016 as torchvision implements it (v1.5: the stride of a bottleneck sits in its 3x3
convolution). BioViL section 2.2 replaces stride by dilation for a grid of H/16. Written here
because torchvision is not among the requirements (docs/dependencies.md says why).

Shapes: B images, C channels, H and W pixels, h and w cells of the grid.
"""

from typing import Any

from torch import Tensor, nn

from cxrflow.encoders.image_encoder import (
    Frames,
    ImageTrunk,
    Patches,
    coloured,
    only_current,
    pooled,
)
from cxrflow.encoders.settings import ConvolutionalSettings, ResNetSettings

STAGES = 4


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut (ResNet-18 and 34)."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, dilation: int, shortcut: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, dilation, dilation, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, dilation, dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _downsample(inputs, width, stride) if shortcut else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions with a shortcut (ResNet-50 and deeper)."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, dilation: int, shortcut: bool) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _downsample(inputs, outputs, stride) if shortcut else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


def _downsample(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """Convolutional trunk: [B, C, H, W] in [0, 1] to patch features [B, features, h, w]."""

    def __init__(self, settings: ConvolutionalSettings) -> None:
        super().__init__()
        block = BasicBlock if settings.block == "basic" else Bottleneck
        self.conv1 = nn.Conv2d(settings.channels, settings.width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(settings.width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if settings.stem_pool else nn.Identity()
        self._inputs, self._dilation = settings.width, 1
        dilate = (False, *settings.dilate)
        for number, (depth, dilated) in enumerate(zip(settings.layers, dilate, strict=True)):
            stage = self._stage(
                block, settings.width * 2**number, depth, 1 if number == 0 else 2, dilated
            )
            setattr(self, f"layer{number + 1}", stage)
        self.features = self._inputs
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def _stage(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        width: int,
        depth: int,
        stride: int,
        dilated: bool,
    ) -> nn.Sequential:
        """One stage. As in torchvision, its first block keeps the dilation of the stage before."""
        first_dilation = self._dilation
        if dilated:
            self._dilation *= stride
            stride = 1
        outputs = width * block.expansion
        blocks = [
            block(
                self._inputs, width, stride, first_dilation, stride != 1 or self._inputs != outputs
            )
        ]
        blocks += [block(outputs, width, 1, self._dilation, False) for _ in range(depth - 1)]
        self._inputs = outputs
        return nn.Sequential(*blocks)

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        return self.after(self.until(pixels_BCHW, 0), 0)

    def until(self, pixels_BCHW: Tensor, stage: int) -> Tensor:
        """The features after that stage; 0: after the stem."""
        hidden = self.maxpool(self.relu(self.bn1(self.conv1(pixels_BCHW))))
        return self._run(hidden, 0, stage)

    def after(self, hidden: Tensor, stage: int) -> Tensor:
        """The features after the last stage from those after ``stage``."""
        return self._run(hidden, stage, STAGES)

    def _run(self, hidden: Tensor, first: int, last: int) -> Tensor:
        for number in range(first + 1, last + 1):
            hidden = getattr(self, f"layer{number}")(hidden)
        return hidden

    def compile_parts(self, options: dict[str, Any]) -> None:
        """Compile the whole trunk with these ``options`` of torch.compile.

        Batches of training keep their shape, those of validation have one of two: a graph each.
        """
        self.compile(**options)


class Trunk(ImageTrunk):
    """A ResNet under the name that the released checkpoints use."""

    stages = STAGES

    def __init__(self, settings: ResNetSettings) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = ResNet(settings)
        self.features = self.encoder.features

    def forward(self, frames: Frames[Tensor]) -> Patches:
        return pooled(self.encoder(coloured(only_current(frames), self.settings)))

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        pixels = coloured(only_current(frames), self.settings)
        return Frames(self.encoder.until(pixels, stage))

    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        return pooled(self.encoder.after(hidden.current, stage))
