"""Masked language modelling: BioViL section 2.1."""

from statistics import fmean

import torch
from torch import Tensor

from cxrflow.objectives.biovil import masked_language_modelling
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Encoders, Needs, Term, Views
from cxrflow.pretrain.terms.settings import MaskedLanguageSettings


class Mlm(Term):
    """The masked words of each of a batch's texts; the mean over the texts of a sample."""

    settings: MaskedLanguageSettings
    compares = False

    def __init__(self, settings: MaskedLanguageSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.needs = Needs(masking=settings)

    def loss(self, views: Views) -> Tensor:
        by_token = self.settings.reduction == "token"
        losses = [
            masked_language_modelling(
                text.logits, text.targets, text.tokens if by_token else text.sequences
            )
            for text in views.masked
        ]
        return torch.stack(losses).mean()

    def answers(self, views: Views) -> Answers:
        texts = views.masked
        targets = torch.cat([text.targets for text in texts])
        by_token = self.settings.reduction == "token"
        number = 1.0 if by_token else fmean(text.tokens / text.sequences for text in texts)
        return Answers(targets.bincount(minlength=texts[0].logits.shape[1]), number)
