"""SimCLR with a head of two linear layers and ReLU, as github.com/sthalles/SimCLR has it."""

import torch
from torch import Tensor, nn

from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import PlainSimclrSettings
from cxrflow.pretrain.views import Encoders, Needs, Views


class PlainSimclr(Term):
    """NT-Xent of the views' projections, not normalised on the way (ConVIRT Appendix E)."""

    settings: PlainSimclrSettings
    needs = Needs(images=2)
    compares = True

    def __init__(self, settings: PlainSimclrSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.head = nn.Sequential(
            nn.Linear(encoders.trunk.features, settings.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(settings.hidden, settings.output),
        )

    def loss(self, views: Views) -> Tensor:
        projected_VNP = [self.head(views.images[number].pooled) for number in (0, 1)]
        gathered_VNP, own = views.batch.gather(*projected_VNP)
        return nt_xent(*gathered_VNP, self.settings.temperature, own)

    def answers(self, views: Views) -> Answers:
        return Answers(torch.ones(2 * len(views.batch.rows) - 1))
