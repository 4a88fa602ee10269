"""A finer grid from trained weights: stride turned into dilation.

BioViL section 2.2: dilated convolutions (Yu and Koltun 2016) give feature maps of a higher
resolution. At use, not in training; a trunk trained with dilation is :mod:`.resnet`'s.
"""

from torch import nn

from cxrflow.encoders.resnet import ResNet


def refine_grid(trunk: nn.Module, stages: tuple[bool, bool, bool]) -> None:
    """Turn the stride of chosen stages, of 2 to 4, into dilation, in place.

    Each makes the grid twice as fine. The old cells keep their features and new ones come between
    them: kernels after such a stride step over the new cells. A stage that was trained with
    dilation has no stride and stays as it is, and so does a trunk without a ResNet.
    """
    resnet = next((module for module in trunk.modules() if isinstance(module, ResNet)), None)
    if resnet is None:
        return
    factor = 1
    for number, chosen in zip((2, 3, 4), stages, strict=True):
        for module in getattr(resnet, f"layer{number}").modules():  # in the order of use
            if not isinstance(module, nn.Conv2d):
                continue
            refined = chosen and module.stride != (1, 1)
            if module.kernel_size != (1, 1):
                # Padded by as much as it is spread, a 3x3 kernel keeps the grid's size.
                spread = module.dilation[0] * factor
                module.dilation = module.padding = (spread, spread)
                factor *= 2 if refined else 1
            if refined:
                module.stride = (1, 1)
