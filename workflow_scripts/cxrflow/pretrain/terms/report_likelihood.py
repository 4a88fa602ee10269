"""Writing the report: cross-entropy of its tokens alone (BioViL-T Appendix F.1)."""

from torch import Tensor

from cxrflow.objectives.biovil import report_likelihood
from cxrflow.pretrain.chance import Answers
from cxrflow.pretrain.objective import Term, Views
from cxrflow.pretrain.terms.settings import ReportLikelihoodSettings


class ReportLikelihood(Term):
    """The mean over all tokens of a batch's reports; prior reports are given, not learnt."""

    settings: ReportLikelihoodSettings
    compares = False

    def loss(self, views: Views) -> Tensor:
        written = views.written
        return report_likelihood(written.logits, written.targets, written.tokens)

    def answers(self, views: Views) -> Answers:
        written = views.written
        return Answers(written.targets.bincount(minlength=written.logits.shape[1]))
