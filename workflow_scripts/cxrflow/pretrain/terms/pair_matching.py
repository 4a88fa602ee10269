"""Contrastive-Binary-Loss: is this the text of this image? (ConVIRT section 4.3)

Both encoders' outputs are projected linearly to one width, side by side they go through a
perceptron. Its answer is learnt from and not kept: afterwards an image and a text are compared by
the cosine of their projections, like any model's.

Shapes: I pairs of this process, P width of the projections.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cxrflow.objectives.pair_matching import pair_matching
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import PairMatchingSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.study_text_pairs import StudyTextProgram, StudyViews


class PairMatching(Term):
    """Each image with its own text, and with that of another sample."""

    settings: PairMatchingSettings
    layers = 1
    compares = False  # the other text is drawn from the whole split

    def __init__(self, settings: PairMatchingSettings, program: "StudyTextProgram") -> None:
        super().__init__(settings, program)
        width = program.image.settings.projection
        hidden = settings.hidden or width
        self.classifier = nn.Sequential(
            nn.Linear(2 * width, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, 1)
        )

    def logits(self, image_IP: Tensor, text_IP: Tensor) -> Tensor:
        """[I]: of each pair that it is real."""
        return self.classifier(torch.cat([image_IP, text_IP], dim=1))[:, 0]

    def loss(self, views: "StudyViews") -> Tensor:
        # A linear projection of the mean is the mean of the projections.
        image_IP = views.image.unnormalised_patches.mean((1, 2))
        real_I = self.logits(image_IP, views.text.projected)
        fake_I = self.logits(image_IP, views.other_text.projected)
        return pair_matching(real_I, fake_I, len(views.batch.rows))

    def answers(self, views: "StudyViews") -> Answers:
        pairs = len(views.batch.rows)
        return Answers(torch.tensor([pairs, pairs]))
