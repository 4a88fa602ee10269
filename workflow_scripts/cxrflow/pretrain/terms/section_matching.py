"""Radiology section matching: BioViL Eq. 1."""

import torch
from torch import Tensor

from cxrflow.objectives.biovil import section_matching
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Needs, Term, Views
from cxrflow.pretrain.terms.settings import SectionMatchingSettings


class SectionMatching(Term):
    """The projected FINDINGS against the projected IMPRESSION of the same report."""

    settings: SectionMatchingSettings
    needs = Needs(texts=("findings", "impression"))
    compares = True

    def loss(self, views: Views) -> Tensor:
        findings, impression = views.texts["findings"], views.texts["impression"]
        (findings_NP, impression_NP), own = views.batch.gather(
            findings.projected, impression.projected
        )
        settings = self.settings
        return section_matching(
            findings_NP, impression_NP, settings.temperature, settings.normalised, own
        )

    def answers(self, views: Views) -> Answers:
        return Answers(torch.ones(len(views.batch.rows)), number=2)
