"""CIDEr against its equations written out, CIDEr-D against pycocoevalcap's values."""

import math
from typing import Any

import numpy as np
import pytest

from cxrflow.metrics.cider import Cider

REFERENCES = [
    text.split()
    for text in (
        "no acute cardiopulmonary process .",
        "there is a small left pleural effusion , unchanged from the prior study .",
        "the heart is mildly enlarged . no pneumothorax .",
        "right lower lobe opacity has increased and may represent pneumonia .",
        "no no acute process . no acute process .",
    )
]
HYPOTHESES = [
    text.split()
    for text in (
        "no acute cardiopulmonary process .",
        "there is a small right pleural effusion , increased from the prior study .",
        "heart size is normal . there is no pneumothorax .",
        "right lower lobe opacity may represent pneumonia or atelectasis . no pneumothorax .",
        "no acute process .",
    )
]
# Of pycocoevalcap 1.2 with these references as its corpus.
LIBRARY = [10.0, 5.733338691949581, 2.021490484164535, 3.7357697794186957, 6.11237825750885]
DOCUMENTS = [
    *REFERENCES,
    ["no", "acute", "process", ".", "no", "effusion", "."],
    ["there", "is", "no", "effusion"],
]


def equations(reference: list[str], hypothesis: list[str], documents: list[list[str]]) -> float:
    """Vedantam et al. 2015, Eq. 1 to 3, with one reference; no document counts as one."""
    total = 0.0
    for n in range(1, 5):

        def grams(words: list[str], n: int = n) -> list[tuple[str, ...]]:
            return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]

        vocabulary = sorted({*grams(reference), *grams(hypothesis)})

        def g(words: list[str], vocabulary: list[tuple[str, ...]] = vocabulary) -> list[float]:
            counts = grams(words)
            vector = []
            for gram in vocabulary:
                term = counts.count(gram) / len(counts) if counts else 0.0
                documents_with = sum(min(1, grams(document).count(gram)) for document in documents)
                vector.append(term * math.log(len(documents) / max(1, documents_with)))
            return vector

        a, b = g(hypothesis), g(reference)
        norms = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
        total += math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else 0.0
    return total / 4


def penalised(reference: list[str], hypothesis: list[str], documents: list[list[str]]) -> float:
    """Section 5 of the same: counts clipped, lengths (in bigrams) that differ penalised."""
    total = 0.0
    for n in range(1, 5):
        grams = [
            [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
            for words in (hypothesis, reference, *documents)
        ]
        a, b, *of_documents = grams

        def weight(gram: tuple[str, ...], of_documents: list[Any] = of_documents) -> float:
            return math.log(len(documents) / max(1, sum(gram in row for row in of_documents)))

        told, truth = (
            {gram: words.count(gram) * weight(gram) for gram in words} for words in (a, b)
        )
        product = math.fsum(min(told[g], truth[g]) * truth[g] for g in told if g in truth)
        norms = math.sqrt(math.fsum(x * x for x in told.values()))
        norms *= math.sqrt(math.fsum(x * x for x in truth.values()))
        total += product / norms if norms else 0.0
    gap = max(0, len(hypothesis) - 1) - max(0, len(reference) - 1)
    return 10 * math.exp(-(gap**2) / 72) * total / 4


def test_cider_is_that_of_the_equations() -> None:
    expected = [equations(r, h, DOCUMENTS) for r, h in zip(REFERENCES, HYPOTHESES, strict=True)]
    scores = Cider(DOCUMENTS).cider(REFERENCES, HYPOTHESES)
    assert scores == pytest.approx(expected, rel=1e-12)
    assert scores[0] == pytest.approx(1) and len(set(scores)) == len(scores)


def test_cider_d_is_that_of_the_library() -> None:
    library = Cider(REFERENCES).cider_d(REFERENCES, HYPOTHESES)
    assert library == pytest.approx(LIBRARY, rel=1e-12)
    known = Cider(DOCUMENTS).cider_d(REFERENCES, HYPOTHESES)
    expected = [penalised(r, h, DOCUMENTS) for r, h in zip(REFERENCES, HYPOTHESES, strict=True)]
    assert known == pytest.approx(expected, rel=1e-12)
    assert known[1] != pytest.approx(library[1], rel=1e-3)


def test_words_in_bulk_gain_nothing_in_cider_d() -> None:
    """What the clipping and the penalty are for (section 5)."""
    honest, bulk = ["effusion", "left"], ["effusion"] * 8
    reference = ["small", "left", "effusion"]
    plain, penalised = (
        [getattr(Cider(DOCUMENTS), kind)([reference], [told])[0] for told in (honest, bulk)]
        for kind in ("cider", "cider_d")
    )
    assert penalised[1] / penalised[0] < plain[1] / plain[0] / 2


@pytest.mark.parametrize("told", [[], ["unseen"], ["no"]])
def test_little_is_scored_without_warnings(told: list[str]) -> None:
    with np.errstate(all="raise"):
        scores = Cider([["no"], ["no", "effusion"]])
        values = [scores.cider([["no"]], [told])[0], scores.cider_d([["no"]], [told])[0]]
    assert values == [0, 0]  # what all documents have weighs nothing
