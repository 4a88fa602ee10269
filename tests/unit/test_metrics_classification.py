"""Binary metrics against scikit-learn, and weights against repeated samples."""

import numpy as np
import pytest
from sklearn import metrics as sk

from cxrflow.metrics.classification import (
    at_threshold,
    auroc,
    binary_metrics,
    operating_points,
    roc_curve,
)


def sample(seed: int, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(300) < 0.3).astype(int)
    scores = rng.normal(size=300) + labels
    return labels, np.round(scores, 1) if ties else scores


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_everything_agrees_with_sklearn(seed, ties):
    labels, scores = sample(seed, ties)
    metrics = binary_metrics(labels, scores)
    assert metrics["auroc"] == pytest.approx(sk.roc_auc_score(labels, scores), abs=1e-12)
    by_threshold = {t: sk.f1_score(labels, scores >= t) for t in np.unique(scores)}
    best = max(by_threshold.values())
    assert metrics["f1"] == pytest.approx(best, abs=1e-12)
    # Of equal ones the highest threshold.
    assert metrics["threshold"] == max(t for t, f in by_threshold.items() if f > best - 1e-12)
    called = scores >= float(metrics["threshold"])
    assert metrics["accuracy"] == pytest.approx(sk.accuracy_score(labels, called))
    assert metrics["sensitivity"] == pytest.approx(sk.recall_score(labels, called))
    assert metrics["specificity"] == pytest.approx(sk.recall_score(labels, called, pos_label=0))
    balanced = sk.balanced_accuracy_score(labels, called)
    assert metrics["balanced_accuracy"] == pytest.approx(balanced)
    precision = sk.average_precision_score(labels, scores)
    assert metrics["average_precision"] == pytest.approx(precision)


@pytest.mark.parametrize("ties", [False, True])
def test_other_threshold_rules_agree_with_sklearn(ties):
    labels, scores = sample(2, ties)
    metrics = binary_metrics(labels, scores, rule="best_mcc")
    thresholds = np.unique(scores)[::-1]
    merits = [sk.matthews_corrcoef(labels, scores >= t) for t in thresholds]
    assert metrics["threshold"] == thresholds[int(np.argmax(np.round(merits, 12)))]
    for threshold in (0.25, float(scores.max()), 99.0, -99.0):
        metrics = binary_metrics(labels, scores, rule=threshold)
        called = scores >= threshold
        assert metrics["threshold"] == threshold
        assert metrics["accuracy"] == pytest.approx(sk.accuracy_score(labels, called))
        assert metrics["f1"] == pytest.approx(sk.f1_score(labels, called))


def test_roc_curve_agrees_with_sklearn():
    labels, scores = sample(9, ties=True)
    false_rate, true_rate = roc_curve(operating_points(labels, scores))
    expected = sk.roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(false_rate, expected[0])
    np.testing.assert_allclose(true_rate, expected[1])


def test_a_weight_is_a_repeated_sample():
    labels, scores = sample(5, ties=True)
    counts = np.random.default_rng(1).integers(0, 4, size=(3, len(labels)))
    together = binary_metrics(labels, scores, counts)
    for row, count in enumerate(counts):
        alone = binary_metrics(np.repeat(labels, count), np.repeat(scores, count))
        for name, values in together.items():
            assert values[row] == pytest.approx(float(alone[name]), abs=1e-12), name


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
