"""Global alignment of images with their texts: BioViL Eq. 2, ConVIRT Eq. 4."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cxrflow.objectives.global_alignment import global_alignment
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import GlobalAlignmentSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.image_text_pairs import PairViews


class GlobalAlignment(Term):
    """The projected image against the projected text."""

    settings: GlobalAlignmentSettings
    layers = 1

    def loss(self, views: "PairViews") -> Tensor:
        image, text = views.image.projected_global, views.text.projected
        (image_NP, text_NP), own = views.batch.gather(image, text)
        settings = self.settings
        return global_alignment(
            image_NP, text_NP, settings.temperature, own, settings.image_to_text
        )

    def answers(self, views: "PairViews") -> Answers:
        return Answers(torch.ones(len(views.batch.rows)), number=2)
