"""Settings of the terms of programs that write, and the lists of them."""

from cxrflow.pretrain.terms.base_settings import Terms, TermSettings


class ReportLikelihoodSettings(TermSettings):
    """Cross-entropy of a report's tokens (BioViL-T Appendix F.1)."""

    title = "Words of the report"


class DoublyStochasticSettings(TermSettings):
    """Attention that sums to one over words as over patches (Xu et al. 2015, Eq. 14)."""

    title = "Doubly stochastic attention"


class ReportTerms(Terms):
    """Of the report program."""

    report_likelihood: ReportLikelihoodSettings | None = None


class CaptionTerms(Terms):
    """Of the caption program."""

    report_likelihood: ReportLikelihoodSettings | None = None
    doubly_stochastic: DoublyStochasticSettings | None = None
