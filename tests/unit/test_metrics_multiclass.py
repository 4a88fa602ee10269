"""Accuracy and F1 of classes against scikit-learn and by repeating samples."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, recall_score

from cxrflow.metrics import multiclass
from cxrflow.metrics.multiclass import accuracy, class_f1
from cxrflow.metrics.multilabel import by_class, mean_of_classes


@pytest.fixture
def answers():
    rng = np.random.default_rng(3)
    return rng.integers(0, 3, 200), rng.integers(0, 3, 200)


def test_against_scikit_learn(answers) -> None:
    labels, predictions = answers
    assert accuracy(labels, predictions)[0] == accuracy_score(labels, predictions)
    recalls = recall_score(labels, predictions, average=None)
    np.testing.assert_allclose(multiclass.recalls(labels, predictions, range(3))[0], recalls)
    for name in range(3):
        expected = f1_score(labels, predictions, labels=[name], average=None)[0]
        assert class_f1(labels, predictions, name)[0] == pytest.approx(expected)


def test_a_class_without_a_known_label_is_left_out_of_the_mean() -> None:
    labels = [[1, np.nan], [0, np.nan], [1, np.nan]]
    aurocs = by_class(labels, [[0.9, 0.1], [0.2, 0.3], [0.4, 0.5]], np.ones((2, 3)))["auroc"]
    assert aurocs[:, 0].tolist() == [1.0, 1.0] and np.isnan(aurocs[:, 1]).all()
    assert mean_of_classes(aurocs, np.isfinite(aurocs)).tolist() == [1.0, 1.0]


def test_counts_are_repetitions(answers) -> None:
    labels, predictions = answers
    counts = np.random.default_rng(4).integers(0, 4, (5, 200))
    for sample, score, f1 in zip(
        counts,
        accuracy(labels, predictions, counts),
        class_f1(labels, predictions, 1, counts),
        strict=True,
    ):
        many = np.repeat(labels, sample), np.repeat(predictions, sample)
        assert score == pytest.approx(accuracy_score(*many))
        assert f1 == pytest.approx(f1_score(*many, labels=[1], average=None)[0])


def test_by_hand() -> None:
    labels, predictions = ["e", "e", "c", "n"], ["e", "n", "c", "c"]
    assert accuracy(labels, predictions)[0] == 0.5
    assert class_f1(labels, predictions, "e")[0] == pytest.approx(2 / 3)
    assert class_f1(labels, predictions, "c")[0] == pytest.approx(2 / 3)
    assert class_f1(labels, predictions, "n")[0] == 0
    assert np.isnan(class_f1(labels, predictions, "other")[0])
    assert np.isnan(multiclass.recalls(labels, predictions, ["e", "other"])[0]).tolist() == [0, 1]


def test_classes_without_both_labels_are_left_out_of_the_mean() -> None:
    labels = np.array([[1, 1, np.nan], [0, 1, 1], [1, 1, 0], [0, 1, np.nan]])
    scores = np.array([[4, 1, 9], [3, 2, 2], [2, 3, 1], [1, 4, 9]]) / 10
    counts = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [2, 1, 0, 0]], float)
    area = by_class(labels, scores, counts)["auroc"]
    # Of the second class there is no 0 at all; of the others in some resamples.
    np.testing.assert_allclose(area, [[0.75, np.nan, 1], [np.nan] * 3, [1, np.nan, np.nan]])
    np.testing.assert_allclose(mean_of_classes(area, np.isfinite(area)), [0.875, np.nan, 1])
