"""Contrastive-Binary-Loss: is this the text of this image? (ConVIRT section 4.3)

Both encoders' outputs are projected linearly to one width, side by side they go through a
perceptron. The paper compares images and texts by the cosine of their projections afterwards, like
any model's; with ``model_similarity`` the model keeps the perceptron and is scored by it.
"""

import torch
from torch import Tensor, nn

from cxrflow.objectives.pair_matching import pair_matching
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.settings import PairMatchingSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.similarity.perceptron import Perceptron, PerceptronSettings


class PairMatching(Term):
    """Each image with its own text, and with that of another sample."""

    settings: PairMatchingSettings
    compares = False  # the other text is drawn from the whole split
    pairs = "image and text"

    def __init__(self, settings: PairMatchingSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        width = encoders.image.settings.projection
        sizes = PerceptronSettings(width=width, hidden=settings.hidden or width)
        self.perceptron = Perceptron(sizes)

    def loss(self, views: Views) -> Tensor:
        image_IP = self._images(views)
        real_I = self.perceptron.logits(image_IP, views.texts["intact"].projected)
        fake_I = self.perceptron.logits(image_IP, views.texts["other"].projected)
        return pair_matching(real_I, fake_I, len(views.batch.rows))

    def similarity(self) -> Perceptron | None:
        return self.perceptron if self.settings.model_similarity else None

    def comparisons(self, views: Views) -> Comparisons:
        """The real half of the loss; false texts are no pairs, and stay."""
        text_NP = views.texts["intact"].projected
        logits = [
            self.perceptron.logits(image_P.expand_as(text_NP), text_NP)
            for image_P in self._images(views)
        ]
        return Comparisons.of_batch(nn.functional.logsigmoid(torch.stack(logits)), slope=0.5)

    def _images(self, views: Views) -> Tensor:
        # A linear projection of the mean is the mean of the projections.
        return views.images[0].unnormalised_patches.mean((1, 2))
