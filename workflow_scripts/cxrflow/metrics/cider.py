"""CIDEr and CIDEr-D: consensus of generated and reference reports (Vedantam et al. 2015).

An n-gram's weight is its inverse document frequency among the reports a captioner learns from;
these are counted once. The caller splits texts into words, which are not stemmed, as in
pycocoevalcap.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.report_text import ORDERS, Words, ngrams

Vector = dict[Words, float]
_SIGMA = 6.0  # of CIDEr-D's penalty on lengths that differ, in words


class Cider:
    """Score N generated reports ("hypotheses"), each against one reference report.

    >>> from cxrflow.metrics import Cider
    >>> documents = ["no acute process".split(), "small left effusion".split()]
    >>> cider = Cider(documents)  # counts n-grams among the reports that are learnt from
    >>> float(cider.cider(documents[:1], documents[:1])[0])
    0.75
    """

    def __init__(self, documents: Sequence[Words]) -> None:
        counts: Counter[Words] = Counter()
        for document in documents:
            counts.update({gram for n in range(1, ORDERS + 1) for gram in ngrams(document, n)})
        # Most n-grams occur in one document; log 1 = 0 is also the default of unseen ones.
        self._log_counts = {gram: np.log(count) for gram, count in counts.items() if count > 1}
        self._log_documents = np.log(max(1, len(documents)))

    def cider(self, references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
        """CIDEr [N] in [0, 1] (its Eq. 1 to 3): mean over n of the cosines of TF-IDF vectors."""
        pairs = zip(hypotheses, references, strict=True)
        return np.array([np.mean([_cosine(a, a, b) for a, b in self._vectors(*p)]) for p in pairs])

    def cider_d(self, references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
        """CIDEr-D [N] in [0, 10] (its section 5): clipped counts, lengths that differ penalised.

        As pycocoevalcap computes it under the name CIDEr, lengths are in bigrams.
        """
        scores = []
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            difference = max(0, len(hypothesis) - 1) - max(0, len(reference) - 1)
            penalty = np.exp(-(difference**2) / (2 * _SIGMA**2))
            cosines = []
            for a, b in self._vectors(hypothesis, reference):
                # Clipping keeps a repeated n-gram from gaining more than the reference has of it.
                clipped = {gram: min(weight, b.get(gram, 0.0)) for gram, weight in a.items()}
                cosines.append(_cosine(clipped, a, b))
            scores.append(10 * penalty * np.mean(cosines))
        return np.array(scores)

    def _vectors(self, hypothesis: Words, reference: Words) -> Iterable[tuple[Vector, Vector]]:
        """Yield the TF-IDF vectors of both reports for each n."""
        for n in range(1, ORDERS + 1):
            yield self._tf_idf(ngrams(hypothesis, n)), self._tf_idf(ngrams(reference, n))

    def _tf_idf(self, grams: Iterable[Words]) -> Vector:
        return {
            gram: count * (self._log_documents - self._log_counts.get(gram, 0.0))
            for gram, count in Counter(grams).items()
        }


def _product(a: Vector, b: Vector) -> float:
    return sum(weight * b[gram] for gram, weight in a.items() if gram in b)


def _cosine(counted: Vector, a: Vector, b: Vector) -> float:
    """The product of b with what counts of a, over both norms; 0 for a vector of length 0."""
    norm = np.sqrt(_product(a, a) * _product(b, b))
    return float(_product(counted, b) / norm) if norm else 0.0
