"""CIDEr and CIDEr-D: consensus of generated and reference reports (Vedantam et al. 2015).

An n-gram's weight is its inverse document frequency among the reports a captioner learns from;
these are counted once. The caller splits texts into words, which are not stemmed, as in
pycocoevalcap.
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
    """Score N generated reports ("hypotheses"), each against one reference report."""

    def __init__(self, documents: Sequence[Words]) -> None:
        counts: Counter[Words] = Counter()
        for document in documents:
            counts.update({gram for n in range(1, ORDERS + 1) for gram in _ngrams(document, n)})
        # Most n-grams occur in one document; log 1 = 0 is also the default of unseen ones.
        self._log_counts = {gram: np.log(count) for gram, count in counts.items() if count > 1}
        self._log_documents = np.log(max(1, len(documents)))

    def cider(self, references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
        """CIDEr [N] in [0, 1] (its Eq. 1 to 3): mean over n of the cosines of TF-IDF vectors."""
        scores = []
        for pair in zip(hypotheses, references, strict=True):
            cosines = [_over_norms(_product(a, b), a, b) for a, b in self._vectors(*pair)]
            scores.append(np.mean(cosines))
        return np.array(scores)

    def cider_d(self, references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
        """CIDEr-D [N] in [0, 10] (its section 5): clipped counts, lengths that differ penalised.

        As pycocoevalcap computes it under the name CIDEr, lengths are in bigrams.
        """
        scores = []
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            difference = max(0, len(hypothesis) - 1) - max(0, len(reference) - 1)
            penalty = np.exp(-(difference**2) / (2 * _SIGMA**2))
            cosines = []
            for vector, target in self._vectors(hypothesis, reference):
                clipped = {
                    gram: min(weight, target.get(gram, 0.0)) for gram, weight in vector.items()
                }
                cosines.append(_over_norms(_product(clipped, target), vector, target))
            scores.append(10 * penalty * np.mean(cosines))
        return np.array(scores)

    def _vectors(self, hypothesis: Words, reference: Words) -> Iterable[tuple[Vector, Vector]]:
        """Yield the TF-IDF vectors of both reports for each n."""
        for n in range(1, ORDERS + 1):
            yield self._tf_idf(_ngrams(hypothesis, n)), self._tf_idf(_ngrams(reference, n))

    def _tf_idf(self, ngrams: Iterable[Words]) -> Vector:
        return {
            gram: count * (self._log_documents - self._log_counts.get(gram, 0.0))
            for gram, count in Counter(ngrams).items()
        }


def _ngrams(words: Words, n: int) -> Iterable[Words]:
    return zip(*(words[begin:] for begin in range(n)), strict=False)


def _product(a: Vector, b: Vector) -> float:
    return sum(weight * b[gram] for gram, weight in a.items() if gram in b)


def _over_norms(product: float, a: Vector, b: Vector) -> float:
    """Divide a product by both norms; 0 for a vector of length 0."""
    norm = np.sqrt(_product(a, a) * _product(b, b))
    return float(product / norm) if norm else 0.0
