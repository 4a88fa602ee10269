"""Which findings an image shows, each by itself: the supervised bound of ConVIRT's Table 2.

Shapes: N images of a batch, F features of the trunk, C findings, X = N C, K labels that count.
"""

import torch
from torch import Tensor, nn

from cxrflow.compute.device_copy import sent
from cxrflow.objectives.biovil import products
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.label_settings import FindingsSettings
from cxrflow.pretrain.validation.permutation import Comparisons


class Findings(Term):
    """Binary cross-entropy of a linear layer on the pooled features of one view.

    The mean over the images of a batch and the findings; a label that does not count adds nothing.
    """

    settings: FindingsSettings
    compares = False
    pairs = "image and findings"

    def __init__(self, settings: FindingsSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.dropout = nn.Dropout(settings.dropout)
        self.classifier = nn.Linear(encoders.trunk.features, len(settings.classes))

    def loss(self, views: Views) -> Tensor:
        logits_NC = self.classifier(self.dropout(views.images[0].pooled))
        labels_X = views.batch.labels.flatten()
        places_K = torch.isfinite(labels_X).nonzero().flatten()  # of the labels that count
        device = logits_NC.device
        summed = nn.functional.binary_cross_entropy_with_logits(
            logits_NC.flatten().index_select(0, sent(places_K, device)),
            sent(labels_X[places_K], device),
            reduction="sum",
        )
        return summed / (len(views.batch.rows) * logits_NC.shape[1])

    def comparisons(self, views: Views) -> Comparisons:
        logits_NC = self.classifier(views.images[0].pooled).float()
        labels_NC = views.batch.labels.to(logits_NC)
        known_NC = torch.isfinite(labels_NC).to(logits_NC)
        present_NC = labels_NC.nan_to_num() * known_NC
        absent_NC = known_NC - present_NC
        score_NN = products(nn.functional.logsigmoid(logits_NC), present_NC) + products(
            nn.functional.logsigmoid(-logits_NC), absent_NC
        )
        return Comparisons.of_batch(score_NN, slope=1 / logits_NC.shape[1])
