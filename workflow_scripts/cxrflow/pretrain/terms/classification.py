"""Which of several classes an image is of: how a trunk is trained with labels.

ConVIRT's image encoders start from one that was trained on ImageNet (its section 3.3, Appendix A).

Shapes: N images of a batch, F features of the trunk, C classes.
"""

from torch import Tensor, nn

from cxrflow.compute.device_copy import sent
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.label_settings import ImageClassSettings
from cxrflow.pretrain.validation.permutation import Comparisons


class Classification(Term):
    """Cross-entropy of a linear layer on the pooled features of one view."""

    settings: ImageClassSettings
    compares = False
    pairs = "image and class"

    def __init__(self, settings: ImageClassSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        classes = len(encoders.samples.classes)
        self.classifier = nn.Linear(encoders.trunk.features, classes)

    def loss(self, views: Views) -> Tensor:
        logits_NC = self.classifier(views.images[0].pooled)
        labels_N = sent(views.batch.labels, logits_NC.device)
        summed = nn.functional.cross_entropy(logits_NC, labels_N, reduction="sum")
        return summed / len(views.batch.rows)

    def comparisons(self, views: Views) -> Comparisons:
        log_shares_NC = self.classifier(views.images[0].pooled).log_softmax(dim=1)
        labels_N = sent(views.batch.labels, log_shares_NC.device)
        return Comparisons.of_batch(log_shares_NC[:, labels_N])
