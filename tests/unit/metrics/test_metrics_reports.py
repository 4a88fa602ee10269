"""Scores of reports: CIDEr, BLEU, ROUGE, labels, entities; each against another implementation."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from cxrflow.metrics.cider import Cider
from cxrflow.metrics.entity_match import corpus_f1, set_counts
from cxrflow.metrics.factuality import factuality
from cxrflow.metrics.intervals import bootstrap
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l

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


STABLE = "lungs are clear . the cardiac and mediastinal silhouette is stable ."
WRITTEN = [*REFERENCES[:4], STABLE.split()]
TOLD = [*HYPOTHESES[:3], [*HYPOTHESES[3], "no", "effusion", "."], ["lungs", "are", "clear", "."]]


@pytest.mark.parametrize(
    ("order", "sacrebleu"),
    [(1, 0.6857181723467701), (2, 0.5866070208245413), (4, 0.39808143051941636)],
)
def test_bleu_is_that_of_sacrebleu_and_nltk(order: int, sacrebleu: float) -> None:
    counts = bleu_counts(WRITTEN, TOLD)
    assert bleu(counts, order) == pytest.approx(sacrebleu, abs=1e-12)


def test_bleu_of_resampled_reports_is_that_of_their_copies() -> None:
    counts = bleu_counts(WRITTEN, TOLD)
    weights = np.array([[2.0, 1.0, 0.0, 0.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    copies = [0, 0, 1, 4, 4, 4]
    copied = bleu_counts([WRITTEN[i] for i in copies], [TOLD[i] for i in copies])
    assert bleu(counts, 4, weights) == pytest.approx(
        [float(bleu(copied, 4)), float(bleu(counts, 4))]
    )


def test_bleu_without_a_match_or_without_words_is_zero() -> None:
    assert bleu(bleu_counts([["a", "b"]], [["c", "d"]]), 2) == 0
    assert bleu(bleu_counts([["a", "b"]], [[]]), 1) == 0


def test_rouge_l_is_that_of_rouge_score_and_pycocoevalcap() -> None:
    assert rouge_l(WRITTEN, TOLD) == pytest.approx(
        [1.0, 0.8571428571428571, 0.631578947368421, 0.5925925925925926, 0.5]
    )
    assert rouge_l(WRITTEN, TOLD, beta=1.2) == pytest.approx(
        [1.0, 0.8571428571428571, 0.6376306620209059, 0.6130653266331658, 0.45864661654135336]
    )
    assert rouge_l([["a"], [], ["a"]], [[], ["a"], ["b"]]).tolist() == [0, 0, 0]


def test_the_common_subsequence_is_that_of_the_table() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        first, second = (
            list(map(str, generator.integers(0, 5, generator.integers(1, 90)))) for _ in range(2)
        )
        table = np.zeros((len(first) + 1, len(second) + 1))
        for i, a in enumerate(first):
            for j, b in enumerate(second):
                longer = max(table[i, j + 1], table[i + 1, j])
                table[i + 1, j + 1] = table[i, j] + 1 if a == b else longer
        f1 = 2 * table[-1, -1] / (len(first) + len(second))
        assert rouge_l([first], [second])[0] == pytest.approx(f1)


NAN = np.nan


def sample(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two label sets that agree in about two of three places; two columns are never positive."""
    rng = np.random.default_rng(seed)
    reference = rng.choice([1.0, 0.0, -1.0, NAN], size=(n, 14), p=[0.2, 0.3, 0.1, 0.4])
    random = rng.choice([1.0, 0.0, -1.0, NAN], size=(n, 14), p=[0.25, 0.25, 0.2, 0.3])
    generated = np.where(rng.random((n, 14)) < 0.6, reference, random)
    reference[:, 3], generated[:, 3] = NAN, NAN
    generated[:, 12] = 0
    return reference, generated


@pytest.mark.parametrize("seed", range(3))
def test_averages_agree_with_sklearn(seed: int) -> None:
    reference, generated = sample(seed)
    scores = factuality(reference, generated, np.ones(200))
    options: dict[str, Any] = {"zero_division": 0}
    assert scores == {
        average: pytest.approx(
            f1_score(reference == 1, generated == 1, average=average, **options), abs=1e-12
        )
        for average in ("weighted", "macro")
    }


def test_by_hand() -> None:
    """Three reports; Edema: 1 hit, 1 miss, 1 false alarm; Effusion: 2 hits; Fracture: nothing.

    An uncertain effusion is absent.
    """
    reference = [[1, 1, NAN], [1, -1, 0], [0, 1, NAN]]
    generated = [[1, 1, NAN], [NAN, 0, NAN], [1, 1, 0]]
    scores = factuality(reference, generated, np.ones(3))
    assert scores["macro"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert scores["weighted"] == pytest.approx((2 * 0.5 + 2 * 1) / 4)


def test_no_positive_anywhere_is_zero_and_equal_labels_are_one() -> None:
    nothing, same = np.array([[NAN] * 14, [0] * 14]), np.ones((2, 14))
    assert factuality(nothing, nothing, np.ones(2)) == {"weighted": 0, "macro": 0}
    assert factuality(same, same, np.ones(2)) == {"weighted": 1, "macro": 1}


def test_a_weight_is_a_repeated_report() -> None:
    reference, generated = sample(7, n=40)
    counts = np.random.default_rng(0).integers(0, 4, size=(3, 40))
    scores = factuality(reference, generated, counts)
    for row, repeats in enumerate(counts):
        again = [np.repeat(labels, repeats, axis=0) for labels in (reference, generated)]
        for name, value in factuality(*again, np.ones(len(again[0]))).items():
            assert scores[name][row] == pytest.approx(float(value), abs=1e-12), name


def test_what_does_not_fit_is_refused() -> None:
    good = np.zeros((2, 14))
    with pytest.raises(ValueError, match="2"):
        factuality(good + 2, good, np.ones(2))
    with pytest.raises(ValueError, match=r"\(3, 14\): want \(2, 14\)"):
        factuality(good, np.zeros((3, 14)), np.ones(2))


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8)
ENTITIES = [["new", "stable", "new"], ["worse"], [], []]
TAGGED = [["new", "new", "improved"], [], ["stable"], []]


def equations_3_and_4(references, hypotheses):
    """BioViL-T's sums, one report after the other."""
    common = generated = truth = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        common += len([entity for entity in set(hypothesis) if entity in reference])
        generated += len(set(hypothesis))
        truth += len(set(reference))
    if generated == truth == 0:
        return float("nan")
    if common == 0:
        return 0.0
    return 2 / (generated / common + truth / common)  # of precision and recall


def f1(references, hypotheses):
    return corpus_f1(set_counts(references, hypotheses), np.ones(len(references)))


@given(PAIRS)
def test_the_score_equals_its_transcription(pairs) -> None:
    references, hypotheses = [a for a, _ in pairs], [b for _, b in pairs]
    expected = equations_3_and_4(references, hypotheses)
    np.testing.assert_allclose(f1(references, hypotheses), expected)


def test_entities_by_hand() -> None:
    """Report 1: {new, stable} against {new, improved}; 2: none told; 3: none true; 4: none."""
    counts = set_counts(ENTITIES, TAGGED)
    np.testing.assert_array_equal(counts, [[1, 2, 2], [0, 0, 1], [0, 1, 0], [0, 0, 0]])
    assert f1(ENTITIES, TAGGED) == pytest.approx(1 / 3)  # new; of 2 + 1 on each side


def test_what_is_not_defined_is_nan() -> None:
    assert f1([["new"]], [[]]) == f1([[]], [["new"]]) == 0
    assert np.isnan(f1([[]], [[]])) and np.isnan(f1([], []))


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 references, 2 hypotheses"):
        set_counts([[]], [[], []])


def test_weights_count_reports_as_often() -> None:
    counts = set_counts(ENTITIES, TAGGED)
    repeated = [0, 0, 0, 2, 3, 3]
    again = ([ENTITIES[i] for i in repeated], [TAGGED[i] for i in repeated])
    values = corpus_f1(counts, np.array([[1, 1, 1, 1], [3, 0, 1, 2]]))
    assert values.tolist() == [f1(ENTITIES, TAGGED), f1(*again)]


def test_intervals_come_from_resampled_reports() -> None:
    counts = set_counts(ENTITIES * 10, TAGGED * 10)
    estimates = bootstrap(lambda w: {"f1": corpus_f1(counts, w)}, np.arange(40), {"f1": 40}, 200)
    assert estimates["f1"].value == pytest.approx(1 / 3)
    assert estimates["f1"].low < 1 / 3 < estimates["f1"].high
