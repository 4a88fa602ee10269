"""How the second of two sentences relates to the first (Miura et al. 2021, section 4; MedNLI).

Shapes: N pairs of sentences, D width, C relations.
"""

from torch import Tensor, nn

from cxrflow.compute.device_copy import sent
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.label_settings import EntailmentSettings
from cxrflow.pretrain.validation.permutation import Comparisons


class Entailment(Term):
    """Cross-entropy of the relation, whose logits are the encoder's projection of [CLS]."""

    settings: EntailmentSettings
    compares = False
    pairs = "two sentences and their relation"

    def __init__(self, settings: EntailmentSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.dropout = nn.Dropout(settings.dropout)

    def _logits(self, views: Views) -> Tensor:
        text = views.texts["pair"]
        return text.encoder.project(self.dropout(text.states[-1][:, :1])).float()

    def loss(self, views: Views) -> Tensor:
        logits_NC = self._logits(views)
        labels_N = sent(views.batch.labels, logits_NC.device)
        summed = nn.functional.cross_entropy(logits_NC, labels_N, reduction="sum")
        return summed / len(views.batch.rows)

    def comparisons(self, views: Views) -> Comparisons:
        log_shares_NC = self._logits(views).log_softmax(dim=1)
        labels_N = sent(views.batch.labels, log_shares_NC.device)
        return Comparisons.of_batch(log_shares_NC[:, labels_N])
