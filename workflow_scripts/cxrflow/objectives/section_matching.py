"""Radiology section matching (RSM): BioViL section 2.1, Eq. 1."""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.contrastive import ALL, symmetric_contrastive


def section_matching(
    findings_NP: Tensor,
    impression_NP: Tensor,
    temperature: float = 0.5,
    normalised: bool = True,
    rows: slice = ALL,
) -> Tensor:
    """Match IMPRESSION to FINDINGS of the same report among N reports; a scalar.

    ``findings_NP`` and ``impression_NP`` are projected [CLS] tokens. The paper does not say
    whether they are L2-normalised as in Eq. 2; ``normalised`` (default) makes them so, since one
    projection serves both equations and tau is 0.5 in both. ``rows``: the reports of this
    process, see :func:`symmetric_contrastive`.
    """
    if normalised:
        findings_NP, impression_NP = (
            normalize(embedding.float(), dim=1) for embedding in (findings_NP, impression_NP)
        )
    return symmetric_contrastive(findings_NP, impression_NP, temperature, rows)
