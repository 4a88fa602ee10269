"""CIDEr and CIDEr-D: consensus of generated and reference reports (Vedantam et al. 2015).

An n-gram weighs by how seldom it is among documents, which are counted once: those a captioner
learns from, at every validation of it. What a word is, the caller decides; words are not stemmed,
as in pycocoevalcap.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = Sequence[str]
Vector = dict[Words, float]
ORDERS = 4  # n-grams of 1 to 4 words
_SIGMA = 6.0  # of CIDEr-D's penalty on lengths that differ, in words


class Cider:
    """Scores of N generated reports ("hypotheses"), each with one reference report."""

    def __init__(self, documents: Sequence[Words]) -> None:
        counts: Counter[Words] = Counter()
        for document in documents:
            counts.update({gram for n in range(1, ORDERS + 1) for gram in _ngrams(document, n)})
        # What stands in one document weighs as much as what stands in none; most n-grams do.
        self._logarithms = {gram: np.log(count) for gram, count in counts.items() if count > 1}
        self._all = np.log(max(1, len(documents)))

    def cider(self, references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
        """CIDEr [N] in [0, 1] (its Eq. 1 to 3): mean over n of the cosines of TF-IDF vectors."""
        return np.array([
            np.mean([_over_norms(_product(a, b), a, b) for a, b in self._vectors(told, truth)])
            for truth, told in zip(references, hypotheses, strict=True)
        ])  # fmt: skip

    def cider_d(self, references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
        """CIDEr-D [N] in [0, 10] (its section 5): clipped counts, lengths that differ penalised.

        As pycocoevalcap computes it under the name CIDEr, lengths are in bigrams.
        """
        scores = []
        for truth, told in zip(references, hypotheses, strict=True):
            difference = max(0, len(told) - 1) - max(0, len(truth) - 1)
            penalty = np.exp(-(difference**2) / (2 * _SIGMA**2))
            cosines = []
            for own, other in self._vectors(told, truth):
                clipped = {gram: min(value, other.get(gram, 0.0)) for gram, value in own.items()}
                cosines.append(_over_norms(_product(clipped, other), own, other))
            scores.append(10 * penalty * np.mean(cosines))
        return np.array(scores)

    def _vectors(self, told: Words, truth: Words) -> Iterable[tuple[Vector, Vector]]:
        """Counts of n-grams times their inverse document frequency, for each n."""
        for n in range(1, ORDERS + 1):
            yield self._weighed(_ngrams(told, n)), self._weighed(_ngrams(truth, n))

    def _weighed(self, ngrams: Iterable[Words]) -> Vector:
        return {
            gram: count * (self._all - self._logarithms.get(gram, 0.0))
            for gram, count in Counter(ngrams).items()
        }


def _ngrams(words: Words, n: int) -> Iterable[Words]:
    return zip(*(words[begin:] for begin in range(n)), strict=False)


def _product(one: Vector, other: Vector) -> float:
    return sum(value * other[gram] for gram, value in one.items() if gram in other)


def _over_norms(product: float, one: Vector, other: Vector) -> float:
    norm = np.sqrt(_product(one, one) * _product(other, other))
    return float(product / norm) if norm else 0.0
