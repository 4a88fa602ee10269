"""A SimCLR training step as the program does it against the same network as a plain script has it.

Layout and arithmetic are what differs: training stores channels last and, where the CPU multiplies
it, computes in bf16; a plain script has contiguous tensors in fp32.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.inputs import move
from cxrflow.pretrain.terms.simclr import projection
from cxrflow.training.optimiser import build
from cxrflow.training.precision import Precision, autocast, choose_precision
from cxrflow.training.processes import ALONE
from cxrflow.training.settings import OptimiserSettings
from speed.race import Race

VIEWS, SIZE, NEAR = 8, 224, 1e-2
HEAD_HIDDEN, HEAD_OUTPUT = 2048, 128
#: Not the program's 0.1, by which rounding of the embeddings would come tenfold into the loss.
TEMPERATURE = 1.0
CPU = torch.device("cpu")


class SimCLRStep:
    """Forward, NT-Xent, backward and AdamW on one batch of views: a turn, which gives the loss.

    Runners start with the same weights, so the losses of their first turns can be compared.
    """

    def __init__(self, views_V1HW: Tensor, precision: Precision, channels_last: bool) -> None:
        encoder = ResNetSettings()
        torch.manual_seed(0)
        self.trunk = ResNet(encoder)
        self.head = projection(self.trunk.features, HEAD_HIDDEN, HEAD_OUTPUT)
        self.layout = torch.contiguous_format
        if channels_last:
            for module in (self.trunk, self.head):
                move(module, CPU, ALONE)
            self.layout = torch.channels_last
        self.views = views_V1HW.expand(-1, encoder.channels, -1, -1)
        self.precision = precision
        self.optimiser = build(OptimiserSettings(), {"trunk": self.trunk, "head": self.head})

    def __call__(self) -> float:
        self.optimiser.zero_grad(set_to_none=True)
        with autocast(CPU, self.precision):
            features = self.trunk(self.views.contiguous(memory_format=self.layout))
            first, second = self.head(features.mean((2, 3))).chunk(2)
            loss = nt_xent(first, second, TEMPERATURE)
        loss.backward()
        self.optimiser.step()
        return loss.item()


def invent_views() -> Tensor:
    """Images of blocks of different sizes, and their mirror images: float32 [VIEWS, 1, H, W]."""
    generator = torch.Generator().manual_seed(0)
    blocks = [torch.rand(1, 1, side, side, generator=generator) for side in (4, 8, 16, 32)]
    images = torch.cat([interpolate(block, (SIZE, SIZE)) for block in blocks])
    return torch.cat([images, images.flip(-1)])


def same_loss(ours: float, theirs: float) -> None:
    assert abs(ours - theirs) <= NEAR * abs(theirs), (ours, theirs)


def races() -> list[Race]:
    step = partial(SimCLRStep, invent_views())
    best = choose_precision("auto", CPU)
    peers = {"fp32 contiguous": step("fp32", False)}
    if best == "bf16":
        peers |= {"fp32 channels-last": step("fp32", True), "bf16 contiguous": step("bf16", False)}
    return [
        Race(
            name="image_step",
            what=f"a SimCLR training step of ResNet-50 on {VIEWS} views of {SIZE} x {SIZE} pixels",
            ours=step(best, True),
            peers=peers,
            check=same_loss,
            gates={"fp32 contiguous": 2.5} if best == "bf16" else {},
            amount=VIEWS,
            unit="view",
            notes=[
                f"ours is {best} with channels last, as training on this CPU has it; parameters "
                "and optimiser are fp32 in all",
                f"compared: the loss of the first step, from the same weights, to {NEAR:g}",
                "timed: forward, NT-Xent at temperature 1, backward, AdamW; the views are there",
            ],
        )
    ]
