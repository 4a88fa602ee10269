"""SimCLR: two views of an image against those of all others (BioViL section 2.2)."""

from typing import TYPE_CHECKING

from torch import Tensor, nn

from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import SimclrSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram


class Head(nn.Module):
    """SimCLR's projection: linear, batch normalisation, ReLU, linear."""

    def __init__(self, features: int, hidden: int, output: int) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(features, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, output, bias=False),
        )

    def forward(self, features_NF: Tensor) -> Tensor:
        return self.model(features_NF)


class Simclr(Term):
    """NT-Xent of the views' projections; has a head."""

    settings: SimclrSettings
    state: Head
    encoded = 2

    def __init__(self, settings: SimclrSettings, program: "TwoViewsProgram") -> None:
        super().__init__(settings, program)
        self.state = Head(program.trunk.encoder.features, settings.hidden, settings.output)

    def loss(self, views: "TwoViews") -> Tensor:
        projected_NVP = self.state(views.features.flatten(0, 1)).unflatten(0, (-1, self.encoded))
        (gathered_NVP,), own = views.gather(projected_NVP)
        return nt_xent(gathered_NVP[:, 0], gathered_NVP[:, 1], self.settings.temperature, own)
