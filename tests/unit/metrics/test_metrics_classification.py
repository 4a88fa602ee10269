"""Metrics of one class and of several, against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.metrics import accuracy_score, f1_score, recall_score

from cxrflow.metrics import multiclass
from cxrflow.metrics.classification import at_threshold, auroc, binary_metrics, roc_curve
from cxrflow.metrics.multiclass import accuracy, class_f1
from cxrflow.metrics.multilabel import by_class, fixed_mean
from cxrflow.metrics.operating_points import operating_points


def test_roc_curve_agrees_with_sklearn():
    rng = np.random.default_rng(9)
    labels = (rng.random(300) < 0.3).astype(int)
    scores = np.round(rng.normal(size=300) + labels, 1)  # with ties
    false_rate, true_rate = roc_curve(operating_points(labels, scores))
    expected = sk.roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(false_rate, expected[0])
    np.testing.assert_allclose(true_rate, expected[1])


def test_by_hand():
    metrics = binary_metrics([0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8])
    assert metrics["auroc"] == 1.0 and metrics["threshold"] == 0.4 and metrics["f1"] == 1.0
    metrics = binary_metrics([1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.2, 0.1])
    assert metrics["auroc"] == pytest.approx(5 / 6)
    assert metrics["threshold"] == 0.7 and metrics["f1"] == pytest.approx(4 / 5)
    assert metrics["specificity"] == pytest.approx(2 / 3) and metrics["sensitivity"] == 1.0
    assert auroc([0, 1], [0.5, 0.5]) == 0.5


def test_one_class_is_undefined_not_wrong():
    assert np.isnan(auroc([1, 1], [0.1, 0.2]))
    assert np.isnan(binary_metrics([0, 0], [0.1, 0.2])["average_precision"])
    points = at_threshold(operating_points([0, 0], [0.1, 0.2]))
    assert all(np.isnan(value) for value in points.values())


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [([0, 2], [0.1, 0.2], "0 and 1"), ([0, 1], [0.1, np.nan], "finite"), ([0], [1, 2], "equal")],
)
def test_bad_input_is_refused(labels, scores, message):
    with pytest.raises(ValueError, match=message):
        operating_points(labels, scores)


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
    aurocs = by_class(labels, [[0.9, 0.1], [0.2, 0.3], [0.4, 0.5]])(np.ones((2, 3)))["auroc"]
    assert aurocs[:, 0].tolist() == [1.0, 1.0] and np.isnan(aurocs[:, 1]).all()
    included = np.isfinite(aurocs[0])
    assert fixed_mean(aurocs, aurocs[0], included).tolist() == [1.0, 1.0]


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


def test_classes_by_hand() -> None:
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
    area = by_class(labels, scores)(counts)["auroc"]
    # Of the second class there is no 0 at all; of the others in some resamples.
    np.testing.assert_allclose(area, [[0.75, np.nan, 1], [np.nan] * 3, [1, np.nan, np.nan]])
    # In a resample they have their values on all samples: the mean is of two classes in all three.
    mean = fixed_mean(area, area[0], np.isfinite(area[0]))
    np.testing.assert_allclose(mean, [0.875, 0.875, 1])
