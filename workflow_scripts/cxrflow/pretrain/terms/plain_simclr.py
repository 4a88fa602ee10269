"""SimCLR with a head of two linear layers and ReLU, as github.com/sthalles/SimCLR has it."""

from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import products
from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.settings import PlainSimclrSettings
from cxrflow.pretrain.validation.permutation import Comparisons


class PlainSimclr(Term):
    """NT-Xent of the views' projections, not normalised on the way (ConVIRT Appendix E)."""

    settings: PlainSimclrSettings
    compares = True
    pairs = "two views of an image"

    def __init__(self, settings: PlainSimclrSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.head = nn.Sequential(
            nn.Linear(encoders.trunk.features, settings.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(settings.hidden, settings.output),
        )

    def loss(self, views: Views) -> Tensor:
        (first_NP, second_NP), rows = views.batch.gather(*self._projected(views))
        return nt_xent(first_NP, second_NP, self.settings.temperature, rows)

    def comparisons(self, views: Views) -> Comparisons:
        first_NP, second_NP = (normalize(view.float(), dim=1) for view in self._projected(views))
        return Comparisons.of_batch(products(first_NP, second_NP) / self.settings.temperature)

    def _projected(self, views: Views) -> list[Tensor]:
        return [self.head(views.images[number].pooled) for number in (0, 1)]
