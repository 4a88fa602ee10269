"""Factual agreement of generated and reference reports: F1 between the labels of both.

Labels are CheXpert's: 1 positive, 0 negative, -1 uncertain, NaN blank. An observation is present
where its label is 1. Numbers compare only within one labeller (published ones: CheXbert).

BioViL-T (section 4, footnote 5) reports "weighted F1" over 14 observations and does not mention
uncertain ones. They count as absent here, as in CXR-RePaiR (Endo et al. 2021), from which that
paper's Table 3 takes its splits and its baselines' scores.
"""

import numpy as np
from numpy.typing import ArrayLike

from cxr_labels.agreement import POSITIVE, state_codes
from cxrflow.metrics.intervals import Floats, ratio


def factuality(
    reference_NO: ArrayLike, generated_NO: ArrayLike, weights: ArrayLike
) -> dict[str, Floats]:
    """F1 between the labels of N reports on O observations, in two averages, both in 0–1.

    ``weighted``, by how many references have an observation, is that of BioViL-T's Table 1;
    ``macro``, the plain mean, that of CXR-RePaiR and of Table 3. ``weights`` is ``[..., N]``, how
    often each report counts (ones, or the counts of :mod:`cxrflow.metrics.intervals`); results have
    its leading shape. A score whose denominator is 0 is 0 (an observation that nobody mentions
    lowers a macro average), as in scikit-learn and the published evaluations.

    Raises:
        ValueError: shapes differ, or a label is not 1, 0, -1 or NaN.
    """
    reference = state_codes(reference_NO, "negative") == POSITIVE
    generated = state_codes(generated_NO, "negative") == POSITIVE
    if reference.shape != generated.shape:
        raise ValueError(f"labels {generated.shape}: want {reference.shape}, as the references")
    weight = np.asarray(weights, dtype=np.float64)
    hits = weight @ (reference & generated)  # [..., O], as the next two
    predicted, actual = weight @ generated, weight @ reference
    f1 = np.nan_to_num(ratio(2 * hits, predicted + actual))
    weighted = np.nan_to_num(ratio((f1 * actual).sum(-1), actual.sum(-1)))
    return {"weighted": np.asarray(weighted), "macro": f1.mean(-1)}
