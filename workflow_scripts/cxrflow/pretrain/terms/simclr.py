"""SimCLR: two views of an image against those of all others (BioViL section 2.2)."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import SimclrSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram


def projection(features: int, hidden: int, output: int) -> nn.Module:
    """SimCLR's head: linear, batch normalisation, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(features, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, output, bias=False),
    )


class Simclr(Term):
    """NT-Xent of the views' projections by a head of its own."""

    settings: SimclrSettings
    encoded = 2

    def __init__(self, settings: SimclrSettings, program: "TwoViewsProgram") -> None:
        super().__init__(settings, program)
        self.head = projection(program.trunk.features, settings.hidden, settings.output)

    def loss(self, views: "TwoViews") -> Tensor:
        projected_NVP = self.head(views.features.flatten(0, 1)).unflatten(0, (-1, self.encoded))
        (gathered_NVP,), own = views.batch.gather(projected_NVP)
        return nt_xent(gathered_NVP[:, 0], gathered_NVP[:, 1], self.settings.temperature, own)

    def answers(self, views: "TwoViews") -> Answers:
        return Answers(torch.ones(2 * len(views.batch.rows) - 1))
