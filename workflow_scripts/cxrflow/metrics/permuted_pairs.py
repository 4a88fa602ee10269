"""Does a model tell true pairs from permuted ones, and how well?

A model scores K questions beside K answers: images beside texts, masked places beside words. The
score ``[i, j]`` is of question i beside answer j, so that true pairs stand on the diagonal.

*Does it differ?* Whoever knows nothing of the pairing does as well with permuted answers. Random
permutations give the distribution of the sum of true scores under that hypothesis: an exact test
whatever the scores' distribution (Hoeffding 1952, Ann Math Stat 23:169; as a test of two matrices
Mantel 1967, Cancer Res 27:209). It does not depend on the scale of the scores, such as a
temperature. Equal answers are ties, since permuting them changes nothing.

*How well?* By the percentile rank of the true pair: the share of other candidates that score less,
of all answers to a question and of all questions to an answer (for rankings: Hu, Koren and Volinsky
2008, ICDM, section 6, counted from the other end). It is the area under the ROC curve of true and
false pairs (Hanley and McNeil 1982, Radiology 143:29), 1/2 for guessing, 1 for perfect. No monotone
change of the scores changes it. Losses have no such measure: the least that can be reached at a
temperature depends on how many candidates are alike, and one model's share of the way to it moved
between 67 and 105 % from one temperature to the next.

Shapes: K pairs, D permutations.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit, stdtrit

from cxrflow.metrics.intervals import Floats

DRAWS = 999  # permutations; p is a multiple of 1 / (DRAWS + 1)
ROUNDING = 1e-6  # of scores; equal answers of a batch may differ by that much


def permuted_sums(score_KK: Floats, generator: np.random.Generator, draws: int = DRAWS) -> Floats:
    """Sums of the scores of pairs in ``draws`` random permutations of the answers, [D]."""
    size = len(score_KK)
    order_DK = generator.permuted(np.tile(np.arange(size), (draws, 1)), axis=1)
    return np.asarray(score_KK.take(order_DK + size * np.arange(size)).sum(axis=1))


def permutation_p(loss: float, permuted_D: Floats, tolerance: float = 0.0) -> float:
    """The one-sided p of a loss among those of permuted pairs.

    The true pairs count as one of the permutations, so that p is never 0 (Phipson and Smyth 2010,
    Stat Appl Genet Mol Biol 9:39). What is within ``tolerance`` of the loss is a tie.
    """
    return float((1 + np.sum(permuted_D <= loss + tolerance)) / (1 + len(permuted_D)))


@dataclass
class RankSums:
    """Sums from which the mean percentile rank and its interval follow; those of batches add up.

    Candidates that equal the true answer, to both of their questions, are none. Ties with others
    count one half. The rank is a U-statistic: a pair is both the true one and another's
    candidate. Its variance is the sum over pairs of pairs with one in common, as in DeLong et al.
    (1988, Biometrics 44:837).
    """

    ranks: float = 0.0
    count: int = 0  # of pairs with a candidate
    of_pairs: Floats = field(default_factory=lambda: np.zeros(3))  # squares and products of x, y
    of_couples: Floats = field(default_factory=lambda: np.zeros(3))

    @classmethod
    def of(cls, score_KK: Floats) -> "RankSums":
        """The sums of one matrix of scores."""
        own_K1 = np.diag(score_KK)[:, None]
        tolerance = ROUNDING * np.abs(own_K1).max()
        to_answer, to_question = own_K1 - score_KK, own_K1 - score_KK.T
        equal = np.abs(to_answer) <= tolerance
        candidate = ~(equal & equal.T)
        above = (_above(to_answer, tolerance) + _above(to_question, tolerance)) / 2 * candidate
        count_K1 = candidate.sum(axis=1, keepdims=True)
        # A pair without another candidate has sums of zero.
        x, y = above / count_K1.clip(min=1), candidate / count_K1.clip(min=1)
        couples = x + x.T, y + y.T
        pairs = [couple.sum(axis=1) for couple in couples]
        return cls(
            float(x.sum()), int((count_K1 > 0).sum()), _moments(*pairs), _moments(*couples) / 2
        )

    def __add__(self, other: "RankSums") -> "RankSums":
        return RankSums(
            self.ranks + other.ranks,
            self.count + other.count,
            self.of_pairs + other.of_pairs,
            self.of_couples + other.of_couples,
        )

    @property
    def mean(self) -> float | None:
        """The mean rank; None where no pair has another candidate."""
        return min(1.0, self.ranks / self.count) if self.count > 1 else None

    def interval(self, level: float = 0.95) -> dict[str, float] | None:
        """The mean rank with its interval, Student's on the logit's scale, which few pairs need.

        None where no pair has another candidate.
        """
        rank = self.mean
        if rank is None:
            return None
        xx, xy, yy = (self.of_pairs - self.of_couples).tolist()
        variance = max(0.0, xx - 2 * rank * xy + rank**2 * yy) / self.count**2
        if not 0 < rank < 1:
            return {"value": rank, "low": rank, "high": rank}
        error = variance**0.5 / (rank * (1 - rank))
        reach = float(stdtrit(self.count - 1, (1 + level) / 2)) * error
        low, high = expit(logit(rank) + np.array([-reach, reach])).tolist()
        return {"value": rank, "low": low, "high": high}


def _above(difference: Floats, tolerance: float) -> Any:
    """1 where the true pair scores more, 1/2 where the same."""
    return (difference > tolerance) + (np.abs(difference) <= tolerance) / 2


def _moments(x: Floats, y: Floats) -> Floats:
    return np.array([np.sum(x * x), np.sum(x * y), np.sum(y * y)])
