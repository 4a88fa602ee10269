"""Which of several classes an image is of: how a trunk is trained with labels.

ConVIRT's image encoders start from one that was trained on ImageNet (its section 3.3, Appendix A).

Shapes: N images of a batch, F features of the trunk, C classes.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import ClassificationSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram


class Classification(Term):
    """Cross-entropy of a linear layer on the pooled features of one view."""

    settings: ClassificationSettings
    compares = False

    def __init__(self, settings: ClassificationSettings, program: "TwoViewsProgram") -> None:
        super().__init__(settings, program)
        classes = len(program.samples["train"].classes)
        self.classifier = nn.Linear(program.trunk.features, classes)

    def loss(self, views: "TwoViews") -> Tensor:
        logits_NC = self.classifier(views.features[:, 0])
        labels_N = views.batch.labels.to(logits_NC.device)
        summed = nn.functional.cross_entropy(logits_NC, labels_N, reduction="sum")
        return summed / len(views.batch.rows)

    def answers(self, views: "TwoViews") -> Answers:
        return Answers(torch.bincount(views.batch.labels, minlength=self.classifier.out_features))
