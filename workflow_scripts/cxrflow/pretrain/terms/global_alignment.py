"""Global alignment of images with their texts: BioViL Eq. 2, ConVIRT Eq. 4."""

import torch
from torch import Tensor

from cxrflow.objectives.biovil import global_alignment
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Needs, Term, Views
from cxrflow.pretrain.terms.settings import GlobalAlignmentSettings


class GlobalAlignment(Term):
    """The projected image against the projected text."""

    settings: GlobalAlignmentSettings
    needs = Needs(images=1, texts=("intact",))
    compares = True

    def loss(self, views: Views) -> Tensor:
        image, text = views.images[0].projected_global, views.texts["intact"].projected
        (image_NP, text_NP), own = views.batch.gather(image, text)
        settings = self.settings
        return global_alignment(
            image_NP, text_NP, settings.temperature, own, settings.image_to_text
        )

    def answers(self, views: Views) -> Answers:
        return Answers(torch.ones(len(views.batch.rows)), number=2)
