"""Similarity in wording of generated and reference reports: BLEU, ROUGE-L.

Every function takes reports as lists of words, N of reference and N of generated ("hypothesis")
reports, one reference each. The caller splits them into words; scores compare only within one way
of splitting. Results are in [0, 1].
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats

Words = Sequence[str]
ORDERS = 4  # n-grams of 1 to 4 words


def bleu_counts(references: Sequence[Words], hypotheses: Sequence[Words]) -> Floats:
    """Counts of each report, which :func:`bleu` adds up: [N, 10].

    Clipped n-gram matches for n of 1 to 4, n-grams of the hypothesis likewise, and the numbers of
    words of hypothesis and reference.

    >>> from cxrflow.metrics import bleu_counts
    >>> counts = bleu_counts(["no acute process".split()], ["no acute disease".split()])
    >>> counts[0, :2].tolist()  # words and pairs of words that match
    [2.0, 1.0]
    """
    rows = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        lengths = (len(hypothesis), len(reference))
        ours = [Counter(ngrams(hypothesis, n)) for n in range(1, ORDERS + 1)]
        theirs = [Counter(ngrams(reference, n)) for n in range(1, ORDERS + 1)]
        matches = [(a & b).total() for a, b in zip(ours, theirs, strict=True)]
        rows.append([*matches, *(grams.total() for grams in ours), *lengths])
    return np.array(rows, dtype=np.float64).reshape(-1, 2 * ORDERS + 2)


def bleu(counts: Floats, order: int, weights: ArrayLike | None = None) -> Floats:
    """Corpus BLEU (Papineni et al. 2002) of n-grams up to ``order``, without smoothing.

    ``weights`` is [..., N], how often each report counts (ones, or the resampling counts of
    :mod:`cxrflow.metrics.intervals`); the result has its leading shape. It is 0 where some n has no
    match, as in sacrebleu.

    >>> from cxrflow.metrics import bleu, bleu_counts
    >>> counts = bleu_counts(["no acute process".split()], ["no acute disease".split()])
    >>> round(float(bleu(counts, order=2)), 3)
    0.577
    """
    weight = np.ones(len(counts)) if weights is None else np.asarray(weights, dtype=np.float64)
    sums = weight @ counts
    matches, totals = sums[..., :order], sums[..., ORDERS : ORDERS + order]
    hypothesis_words, reference_words = sums[..., -2], sums[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(matches / totals).mean(axis=-1))
        brevity = np.exp(np.minimum(0.0, 1.0 - reference_words / hypothesis_words))
    return np.asarray(np.where((matches > 0).all(axis=-1), precision * brevity, 0.0))


def rouge_l(references: Sequence[Words], hypotheses: Sequence[Words], beta: float = 1.0) -> Floats:
    """ROUGE-L [N]: the F score of the longest common subsequence (Lin 2004, section 3.1).

    ``beta`` weighs recall: 1 in the package rouge-score, 1.2 in pycocoevalcap. 0 without words.

    >>> from cxrflow.metrics import rouge_l
    >>> rouge_l(["no acute process".split()], ["no acute disease".split()]).round(3).tolist()
    [0.667]
    """
    scores = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        common = _longest_common(reference, hypothesis)
        if not common:
            scores.append(0.0)
            continue
        precision, recall = common / len(hypothesis), common / len(reference)
        scores.append((1 + beta**2) * precision * recall / (recall + beta**2 * precision))
    return np.array(scores)


def ngrams(words: Words, n: int) -> list[Words]:
    """The n-grams of a report in order, repeats included."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _longest_common(a: Words, b: Words) -> int:
    """Length of the longest common subsequence.

    A row of the dynamic programme is the bits of one integer, 0 where the row rises by one
    (Hyyrö 2004), which is much faster than a loop over its cells.
    """
    bits: dict[str, int] = {}
    for place, word in enumerate(a):
        bits[word] = bits.get(word, 0) | 1 << place
    full = (1 << len(a)) - 1
    row = full
    for word in b:
        hits = row & bits.get(word, 0)
        row = ((row + hits) | (row - hits)) & full
    return len(a) - row.bit_count()
