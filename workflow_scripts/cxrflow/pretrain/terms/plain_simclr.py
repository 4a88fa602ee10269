"""SimCLR with a head of two linear layers and ReLU, as github.com/sthalles/SimCLR has it."""

from torch import nn

from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import PlainSimclrSettings
from cxrflow.pretrain.terms.simclr import Simclr
from cxrflow.pretrain.views import Encoders


class PlainSimclr(Simclr):
    """NT-Xent of the views' projections, which are not normalised in between (ConVIRT App. E)."""

    settings: PlainSimclrSettings

    def __init__(self, settings: PlainSimclrSettings, encoders: Encoders) -> None:
        Term.__init__(self, settings, encoders)
        self.head = nn.Sequential(
            nn.Linear(encoders.trunk.features, settings.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(settings.hidden, settings.output),
        )
