"""Which of several classes an image is of: how a trunk is trained with labels.

ConVIRT's image encoders start from one that was trained on ImageNet (its section 3.3, Appendix A).

Shapes: N images of a batch, F features of the trunk, C classes.
"""

import torch
from torch import Tensor, nn

from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Encoders, Needs, Term, Views
from cxrflow.pretrain.terms.settings import ImageClassSettings


class Classification(Term):
    """Cross-entropy of a linear layer on the pooled features of one view."""

    settings: ImageClassSettings
    needs = Needs(images=1)
    compares = False

    def __init__(self, settings: ImageClassSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        classes = len(encoders.samples.classes)
        self.classifier = nn.Linear(encoders.trunk.features, classes)

    def loss(self, views: Views) -> Tensor:
        logits_NC = self.classifier(views.images[0].pooled)
        labels_N = views.batch.labels.to(logits_NC.device)
        summed = nn.functional.cross_entropy(logits_NC, labels_N, reduction="sum")
        return summed / len(views.batch.rows)

    def answers(self, views: Views) -> Answers:
        return Answers(torch.bincount(views.batch.labels, minlength=self.classifier.out_features))
