"""Masked language modelling: BioViL section 2.1."""

from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.objectives.biovil import masked_language_modelling
from cxrflow.pretrain.objective import Term, Views
from cxrflow.pretrain.terms.settings import MaskedLanguageSettings
from cxrflow.pretrain.validation.permutation import Comparisons, PairGroup


class Mlm(Term):
    """The masked words of each of a batch's texts; the mean over the texts of a sample."""

    settings: MaskedLanguageSettings
    compares = False
    pairs = "masked place and word"

    def loss(self, views: Views) -> Tensor:
        by_token = self.settings.reduction == "token"
        losses = [
            masked_language_modelling(
                text.logits, text.targets, text.tokens if by_token else text.sequences
            )
            for text in views.masked
        ]
        return torch.stack(losses).mean()

    def comparisons(self, views: Views) -> Comparisons:
        """The places of a text beside its masked words, which belong together by their subject.

        So only these are permuted. Whoever knows how frequent words are, and what the text is
        about, gains nothing by that.
        """
        groups = []
        for text in views.masked:
            assert text.texts is not None
            log_total_M = text.logits.float().logsumexp(dim=1)
            for number in text.texts.unique().tolist():
                places = sent((text.texts == number).nonzero()[:, 0], text.logits.device)
                score_KK = text.logits[places][:, text.targets[places]] - log_total_M[places, None]
                groups.append(PairGroup(score_KK, np.full(len(places), number)))
        by_token = self.settings.reduction == "token"
        per_text = [text.tokens / text.sequences for text in views.masked]
        return Comparisons(groups, 1.0 if by_token else fmean(per_text))
