"""Radiology section matching: BioViL Eq. 1."""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import products, section_matching
from cxrflow.pretrain.objective import Term, Views
from cxrflow.pretrain.terms.settings import SectionMatchingSettings
from cxrflow.pretrain.validation.permutation import Comparisons


class SectionMatching(Term):
    """The projected FINDINGS against the projected IMPRESSION of the same report."""

    settings: SectionMatchingSettings
    compares = True
    pairs = "findings and impression"

    def loss(self, views: Views) -> Tensor:
        findings, impression = views.texts["findings"], views.texts["impression"]
        (findings_NP, impression_NP), rows = views.batch.gather(
            findings.projected, impression.projected
        )
        settings = self.settings
        return section_matching(
            findings_NP, impression_NP, settings.temperature, settings.normalised, rows
        )

    def comparisons(self, views: Views) -> Comparisons:
        sections = [views.texts[name].projected.float() for name in self.needs.texts]
        if self.settings.normalised:
            sections = [normalize(section, dim=1) for section in sections]
        score_NN = products(*sections) / self.settings.temperature
        return Comparisons.of_batch(score_NN, slope=2)
