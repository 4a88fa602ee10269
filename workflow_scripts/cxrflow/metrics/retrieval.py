"""Retrieval by cosine: rankings, precision among the first k (ConVIRT section 4.2), target ranks.

Shapes: Q queries, C candidates, F features, K cutoffs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cxrflow.metrics.intervals import Floats

_DECIMALS = 9  # float32 features have seven; equal vectors must have equal cosines


def cosines(queries_QF: Floats, candidates_CF: Floats) -> Floats:
    """Cosine [Q, C] of each query with each candidate, in [-1, 1]; 0 for a vector of length 0.

    >>> import numpy as np
    >>> from cxrflow.metrics import cosines
    >>> cosines(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 0.0]]
    """

    def unit(vectors: Floats) -> Floats:
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(length > 0, length, 1)

    return without_rounding(unit(queries_QF) @ unit(candidates_CF).T)


def without_rounding(scores: Floats) -> Floats:
    """Scores without the last digits, in which equal pairs differ by the order of their sums."""
    return np.round(scores, _DECIMALS)


def ranking(scores_QC: Floats) -> NDArray[np.int64]:
    """Numbers [Q, C] of the candidates, greatest score first; equal scores in their own order."""
    return np.argsort(-scores_QC, axis=1, kind="stable")


def precision(relevant_QC: NDArray[np.bool_], cutoffs: Sequence[int]) -> Floats:
    """Share [Q, K] of relevant candidates among the first k; columns are in order of rank."""
    hits_QC = relevant_QC.cumsum(axis=1)
    return hits_QC[:, np.asarray(cutoffs) - 1] / np.asarray(cutoffs, dtype=np.float64)


def ranks(
    scores_QC: Floats, target_Q: NDArray[np.int64], rivals_QC: NDArray[np.bool_] | None = None
) -> Floats:
    """Rank [Q], from 1 on, of the target candidate of each query; ties get their mean rank.

    The mean favours nobody: where all scores are equal every rank is (C + 1) / 2.

    Args:
        rivals_QC: candidates that may stand before the target; None: all but the target itself.

    >>> import numpy as np
    >>> from cxrflow.metrics import ranks
    >>> ranks(np.array([[0.2, 0.9], [0.1, 0.7]]), np.array([0, 1])).tolist()
    [2.0, 1.0]
    """
    if rivals_QC is None:
        rivals_QC = np.arange(scores_QC.shape[1]) != target_Q[:, None]
    own_Q = np.take_along_axis(scores_QC, target_Q[:, None], axis=1)[:, 0]
    return ranks_of(scores_QC, own_Q, rivals_QC)


def ranks_of(scores_QC: Floats, own_Q: Floats, rivals_QC: NDArray[np.bool_]) -> Floats:
    """The same of targets that have the scores ``own_Q``."""
    before_QC, equal_QC = scores_QC > own_Q[:, None], scores_QC == own_Q[:, None]
    before_Q, equal_Q = ((rivals_QC & kind).sum(axis=1) for kind in (before_QC, equal_QC))
    return np.asarray(1 + before_Q + equal_Q / 2, dtype=np.float64)
