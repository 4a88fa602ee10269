"""Prototype-level alignment: image and report share their prototypes (MGCA, CPA).

Prototypes are vectors of length 1 in the joint space that are learnt with the encoders. In the
first epoch they rest, weight decay included. They are part of the training and not of the model.

Shapes: N pairs of a batch, K prototypes, P joint space.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import products
from cxrflow.objectives.prototypes import code_prediction, codes, prototype_alignment
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.mgca_settings import PrototypesSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.training.program import ParameterRule


class Prototypes(Term):
    """Predicts the code of an image from its report, and the other way round."""

    settings: PrototypesSettings
    compares = True
    pairs = "image and text"

    def __init__(self, settings: PrototypesSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        layer = nn.Linear(encoders.image.settings.projection, settings.number, bias=False)
        self.vectors = nn.Parameter(normalize(layer.weight.detach(), dim=1))  # [K, P]
        self.parameter_rules = (ParameterRule("prototypes.*", rest=settings.rest_epochs),)
        self._rest = False

    def loss(self, views: Views) -> Tensor:
        if self.training:
            self._rest = views.batch.epoch < self.settings.rest_epochs
        settings, (image, text) = self.settings, self._projections(views)
        (image_NP, text_NP), rows = views.batch.gather(image, text)
        return prototype_alignment(
            *(image_NP, text_NP, self.vectors, settings.temperature),
            *(settings.epsilon, settings.iterations, settings.code_batch, rows),
        )

    def comparisons(self, views: Views) -> Comparisons:
        """How well the codes of every image and every text are predicted from each other."""
        settings = self.settings
        image_NK, text_NK = (
            products(projection, self.vectors) for projection in self._projections(views)
        )
        image_code_NK, text_code_NK = (
            codes(scores, settings.iterations, settings.epsilon, settings.code_batch)
            for scores in (image_NK, text_NK)
        )
        scores = []
        for score_K, code_K in zip(image_NK, image_code_NK, strict=True):
            of_image = code_prediction(code_K.expand_as(text_NK), text_NK, settings.temperature)
            of_text = code_prediction(
                text_code_NK, score_K.expand_as(text_NK), settings.temperature
            )
            scores.append(-of_image - of_text)
        return Comparisons.of_batch(torch.stack(scores), slope=0.5)

    def after_update(self) -> None:
        if not self._rest:  # to the bit as they are
            self.vectors.copy_(normalize(self.vectors, dim=1))

    def _projections(self, views: Views) -> tuple[Tensor, Tensor]:
        text = views.texts["intact"].projected
        return views.images[0].projected_global, normalize(text.float(), dim=1)
