"""Agreement of the entities of generated reports with those of the reference reports.

TEM and NEM of BioViL-T (Bannur et al. 2023, appendices D.1 and F.1): one F1 over all reports, each
string once a report; two entities match when their strings are equal. Which entities are counted,
and in which case, is the caller's choice.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats, ratio

Reports = Sequence[Sequence[str]]


def set_counts(references: Reports, hypotheses: Reports) -> Floats:
    """Count the distinct entities of each of N reports, ``[N, 3]``.

    The columns: in both, in the hypothesis (the generated report), in the reference.
    """
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(references)} references, {len(hypotheses)} hypotheses: want equal")
    rows = [
        (len(set(hypothesis) & set(reference)), len(set(hypothesis)), len(set(reference)))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def corpus_f1(counts_N3: ArrayLike, weights: ArrayLike) -> Floats:
    """F1 over all reports (BioViL-T, Eqs. 3 and 4), from :func:`set_counts`.

    ``weights`` is ``[..., N]``: how often each report counts (ones, or the resampling counts of
    :mod:`cxrflow.metrics.intervals`); results have the leading shape. NaN without any entity on
    either side; a report that has none changes nothing.
    """
    common, generated, reference = np.moveaxis(np.asarray(weights) @ np.asarray(counts_N3), -1, 0)
    return ratio(2 * common, generated + reference)  # the harmonic mean of precision and recall
