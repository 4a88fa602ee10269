"""Writing the report: cross-entropy of its tokens alone (BioViL-T Appendix F.1)."""

from typing import TYPE_CHECKING

from torch import Tensor

from cxrflow.objectives.report_likelihood import report_likelihood
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.settings import ReportLikelihoodSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.report_writing import ReportViews


class ReportLikelihood(Term):
    """The mean over all tokens of a batch's reports; prior reports are given, not learnt."""

    settings: ReportLikelihoodSettings
    compares = False

    def loss(self, views: "ReportViews") -> Tensor:
        return report_likelihood(views.logits, views.targets, views.predicted)

    def answers(self, views: "ReportViews") -> Answers:
        return Answers(views.targets.bincount(minlength=views.logits.shape[1]))
