"""BLEU, ROUGE-L and CIDEr-D against the values of the libraries that people use.

The values were computed by sacrebleu 2.6.0 (``tokenize="none"``, no smoothing), nltk 3.10.4,
rouge-score 0.1.2 and pycocoevalcap 1.2 from the words below.
"""

import numpy as np
import pytest

from cxrflow.metrics.cider import Cider
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l

REFERENCES = [
    text.split()
    for text in (
        "no acute cardiopulmonary process .",
        "there is a small left pleural effusion , unchanged from the prior study .",
        "the heart is mildly enlarged . no pneumothorax .",
        "right lower lobe opacity has increased and may represent pneumonia .",
        "lungs are clear . the cardiac and mediastinal silhouette is stable .",
    )
]
HYPOTHESES = [
    text.split()
    for text in (
        "no acute cardiopulmonary process .",
        "there is a small right pleural effusion , increased from the prior study .",
        "heart size is normal . there is no pneumothorax .",
        "right lower lobe opacity may represent pneumonia or atelectasis . no pneumothorax . "
        "no effusion .",
        "lungs are clear .",
    )
]


@pytest.mark.parametrize(
    ("order", "sacrebleu"),
    [(1, 0.6857181723467701), (2, 0.5866070208245413), (4, 0.39808143051941636)],
)
def test_bleu_is_that_of_sacrebleu_and_nltk(order: int, sacrebleu: float) -> None:
    counts = bleu_counts(REFERENCES, HYPOTHESES)
    assert bleu(counts, order) == pytest.approx(sacrebleu, abs=1e-12)


def test_bleu_of_resampled_reports_is_that_of_their_copies() -> None:
    counts = bleu_counts(REFERENCES, HYPOTHESES)
    weights = np.array([[2.0, 1.0, 0.0, 0.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    copies = [0, 0, 1, 4, 4, 4]
    copied = bleu_counts([REFERENCES[i] for i in copies], [HYPOTHESES[i] for i in copies])
    assert bleu(counts, 4, weights) == pytest.approx(
        [float(bleu(copied, 4)), float(bleu(counts, 4))]
    )


def test_bleu_without_a_match_or_without_words_is_zero() -> None:
    assert bleu(bleu_counts([["a", "b"]], [["c", "d"]]), 2) == 0
    assert bleu(bleu_counts([["a", "b"]], [[]]), 1) == 0


def test_rouge_l_is_that_of_rouge_score_and_pycocoevalcap() -> None:
    assert rouge_l(REFERENCES, HYPOTHESES) == pytest.approx(
        [1.0, 0.8571428571428571, 0.631578947368421, 0.5925925925925926, 0.5]
    )
    assert rouge_l(REFERENCES, HYPOTHESES, beta=1.2) == pytest.approx(
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


def test_cider_is_that_of_pycocoevalcap() -> None:
    assert Cider(REFERENCES).cider_d(REFERENCES, HYPOTHESES) == pytest.approx(
        [10.0, 5.7162177322873, 2.0849291778568313, 2.477753493477258, 1.9878908345859045]
    )


def test_cider_may_know_other_documents() -> None:
    documents = [*REFERENCES, *[["no", "acute", "process", "."]] * 5]
    common = Cider(documents).cider_d(REFERENCES, HYPOTHESES)
    assert common[0] == pytest.approx(10) and common[2] != pytest.approx(2.0849, abs=1e-3)
