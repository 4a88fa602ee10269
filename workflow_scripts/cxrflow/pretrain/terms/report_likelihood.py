"""Writing the report: cross-entropy of its tokens alone (BioViL-T Appendix F.1)."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cxrflow.compute.device_copy import sent
from cxrflow.objectives.biovil import report_likelihood
from cxrflow.pretrain.objective import Term, Views, WrittenText
from cxrflow.pretrain.terms.writing_settings import ReportLikelihoodSettings
from cxrflow.pretrain.validation.permutation import Comparisons, PairGroup


class ReportLikelihood(Term):
    """The mean over all tokens of a batch's reports; prior reports are given, not learnt."""

    settings: ReportLikelihoodSettings
    compares = False
    pairs = "image and report"

    def loss(self, views: Views) -> Tensor:
        written = views.written
        return report_likelihood(written.logits, written.targets, written.tokens)

    def comparisons(self, views: Views) -> Comparisons:
        """Reports beside their image and beside one other, each two images being swapped.

        All images beside all reports would take the decoder N times. The order of words is no
        part of it: to write as reports are written is not yet to look at the image.
        """
        written, even = views.written, views.samples // 2 * 2
        swapped_N = torch.arange(views.samples)
        swapped_N[:even] = swapped_N[:even].view(-1, 2).flip(1).flatten()
        true_N = _likelihoods(written, views.samples)
        false_N = _likelihoods(views.written_beside(swapped_N), views.samples)
        groups = []
        for first in range(0, even, 2):
            pair = slice(first, first + 2)
            score_22 = true_N[pair].diag() + false_N[pair].diag().flipud()
            groups.append(PairGroup(score_22, np.arange(first, first + 2)))
        return Comparisons(groups, slope=views.samples / written.tokens)


def _likelihoods(written: WrittenText, reports: int) -> Tensor:
    """The log-likelihood of each report, [N]."""
    losses_T = cross_entropy(written.logits.float(), written.targets, reduction="none")
    return -losses_T.new_zeros(reports).index_add(
        0, sent(written.reports, losses_T.device), losses_T
    )
