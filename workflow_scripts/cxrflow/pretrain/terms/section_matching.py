"""Radiology section matching: BioViL Eq. 1."""

import torch
from torch import Tensor

from cxrflow.objectives.section_matching import section_matching
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.report_text import TextViews
from cxrflow.pretrain.terms.settings import SectionMatchingSettings


class SectionMatching(Term):
    """The projected FINDINGS against the projected IMPRESSION of the same report."""

    settings: SectionMatchingSettings
    layers = 1

    def loss(self, views: TextViews) -> Tensor:
        (findings_NP, impression_NP), own = views.batch.gather(
            *(text.projected for text in views.texts)
        )
        settings = self.settings
        return section_matching(
            findings_NP, impression_NP, settings.temperature, settings.normalised, own
        )

    def answers(self, views: TextViews) -> Answers:
        return Answers(torch.ones(len(views.batch.rows)), number=2)
