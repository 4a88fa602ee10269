"""SimCLR: two views of an image against those of all others (BioViL section 2.2)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import products
from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.settings import SimclrSettings
from cxrflow.pretrain.validation.permutation import Comparisons


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
    compares = True
    pairs = "two views of an image"

    def __init__(self, settings: SimclrSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.head = projection(encoders.trunk.features, settings.hidden, settings.output)

    def loss(self, views: Views) -> Tensor:
        (gathered_NVP,), rows = views.batch.gather(self._projected(views))
        return nt_xent(gathered_NVP[:, 0], gathered_NVP[:, 1], self.settings.temperature, rows)

    def comparisons(self, views: Views) -> Comparisons:
        first_NP, second_NP = normalize(self._projected(views).float(), dim=2).unbind(1)
        return Comparisons.of_batch(products(first_NP, second_NP) / self.settings.temperature)

    def _projected(self, views: Views) -> Tensor:
        # Both views of an image are neighbours, as in the trunk: a ghost batch holds both.
        features_NVF = torch.stack([views.images[number].pooled for number in (0, 1)], dim=1)
        return self.head(features_NVF.flatten(0, 1)).unflatten(0, (-1, 2))
