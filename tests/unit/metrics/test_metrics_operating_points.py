"""Scores that are sorted once for all resamples, against scikit-learn's weighted metrics."""

import numpy as np
import pytest
from sklearn import metrics as sk

from cxrflow.metrics import intervals
from cxrflow.metrics.classification import BINARY, at_threshold, binary_metrics
from cxrflow.metrics.intervals import Floats, resamples
from cxrflow.metrics.multilabel import by_class
from cxrflow.metrics.operating_points import Ranking, accumulate, by_sample, operating_points

COUNT = 60
PATIENTS = {
    "a patient's images together": np.random.default_rng(5).integers(0, 30, COUNT),
    "an image a patient": np.arange(COUNT),
}


def classes(ties: bool) -> tuple[Floats, Floats]:
    """Labels and scores [N, C]: none, one, few, many and only positives, some not labelled."""
    rng = np.random.default_rng(2)
    labels = np.stack([np.arange(COUNT) < many for many in (0, 1, 4, 25, 56, COUNT)], 1) * 1.0
    scores = rng.normal(size=labels.shape) + labels * [1, 1, 1, 1, -0.5, 1]
    labels[rng.random(labels.shape) < 0.1] = np.nan
    labels[0, 1] = 1
    return labels, np.round(scores, 1) if ties else scores


def expected(labels: Floats, scores: Floats, weights: Floats, rule: str | float) -> dict:
    """Every metric of one resample by scikit-learn; of the best thresholds the highest."""
    counted = np.isfinite(labels) & (weights > 0)
    y, s, w = labels[counted].astype(int), scores[counted], weights[counted]
    if not (y == 1).any():
        return dict.fromkeys(BINARY, np.nan)

    def at(threshold: float) -> dict:
        called = s >= threshold
        options = {"sample_weight": w, "zero_division": 0}
        return {
            "accuracy": sk.accuracy_score(y, called, sample_weight=w),
            "sensitivity": sk.recall_score(y, called, **options),
            "specificity": sk.recall_score(y, called, pos_label=0, **options),
            "f1": sk.f1_score(y, called, **options),
            "threshold": threshold,
        }

    if isinstance(rule, float):
        chosen = at(rule)
    elif rule == "best_mcc":
        every = np.unique(scores[np.isfinite(labels)])[::-1]
        merit = [sk.matthews_corrcoef(y, s >= t, sample_weight=w) for t in every]
        chosen = at(float(every[int(np.argmax(np.round(merit, 12)))]))
    else:
        precision, recall, every = sk.precision_recall_curve(y, s, sample_weight=w)
        merit = (2 * precision * recall / np.maximum(precision + recall, 1e-9))[-2::-1]
        chosen = at(float(every[::-1][int(np.argmax(np.round(merit, 12)))]))
    both = (y == 0).any()
    chosen["specificity"] = chosen["specificity"] if both else np.nan
    chosen["balanced_accuracy"] = (chosen["sensitivity"] + chosen["specificity"]) / 2
    area = sk.roc_auc_score(y, s, sample_weight=w) if both else np.nan
    precision = sk.average_precision_score(y, s, sample_weight=w)
    return {**chosen, "auroc": area, "average_precision": precision}


@pytest.mark.parametrize("patients", PATIENTS)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("rule", ["best_f1", "best_mcc", 0.3, 99.0])
def test_every_resample_agrees_with_scikit_learn(patients, ties, rule, monkeypatch) -> None:
    labels, scores = classes(ties)
    monkeypatch.setattr(intervals, "_BLOCK", 3 * COUNT)
    metrics = by_class(labels, scores, rule)
    replicates = 4 if rule == "best_mcc" else 7
    drawn = resamples(PATIENTS[patients], replicates, seed=1)
    blocks = [(counts, metrics(counts)) for counts in drawn]
    assert len(blocks) > 1
    for counts, values in blocks:
        assert list(values) == list(BINARY)
        for row, weights in enumerate(counts):
            for column in range(labels.shape[1]):
                wanted = expected(labels[:, column], scores[:, column], weights, rule)
                got = {name: float(value[row, column]) for name, value in values.items()}
                assert got == pytest.approx(wanted, abs=1e-12, nan_ok=True), (row, column)


@pytest.mark.parametrize("names", [["auroc"], ["f1", "auroc"], ["threshold"]])
def test_what_is_not_asked_for_is_not_computed(names) -> None:
    labels, scores = classes(ties=True)
    counts = next(resamples(PATIENTS["an image a patient"], 5, seed=0))
    every, chosen = by_class(labels, scores)(counts), by_class(labels, scores, names=names)(counts)
    assert list(chosen) == names
    for name in names:
        np.testing.assert_array_equal(chosen[name], every[name])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("rule", ["best_f1", "best_mcc", 0.3, 99.0, -99.0])
def test_weights_that_are_no_whole_numbers(ties, rule) -> None:
    """Of one class by itself; the last row weighs all alike."""
    rng = np.random.default_rng(0)
    labels, scores = classes(ties)
    y, s = np.nan_to_num(labels[:, 3]), scores[:, 3]
    weights = np.concatenate([rng.random((4, COUNT)), np.ones((1, COUNT))])
    metrics = binary_metrics(y, s, weights, rule)
    for row, weight in enumerate(weights):
        wanted = expected(y, s, weight, rule)
        got = {name: float(value[row]) for name, value in metrics.items()}
        assert got == pytest.approx(wanted, abs=1e-12)
    assert by_sample(weights).dtype == np.float64


def test_sums_are_short_only_where_they_are_exact() -> None:
    assert by_sample([[1.0, 2.0], [0.0, 3.0]]).dtype == np.float32
    assert by_sample([[1.0, 2.0], [0.0, 3.0]]).tolist() == [[1, 0], [2, 3]]
    assert by_sample([[2.0**22, 1.0]]).dtype == np.float64
    labels, scores = np.array([0, 1, 0, 1]), np.array([0.1, 0.2, 0.3, 0.4])
    heavy = binary_metrics(labels, scores, [2.0**24 + 1, 1, 2, 2.0**24])
    wanted = expected(labels, scores, np.array([2.0**24 + 1, 1, 2, 2.0**24]), "best_f1")
    assert {k: float(v) for k, v in heavy.items()} == pytest.approx(wanted, abs=1e-15)


def test_thresholds_without_a_positive_are_left_out() -> None:
    labels, scores = [0, 1, 0, 0, 1, 0, 0], [9, 8, 7, 6, 6, 5, 4]
    assert Ranking.of(labels, scores).thresholds.tolist() == [9, 8, 6, 4]
    assert Ranking.of(labels, scores, threshold=6.5).thresholds.tolist() == [9, 8, 7, 6, 4]
    points = operating_points(labels, scores)
    assert points.thresholds.tolist() == [9, 8, 7, 6, 5, 4]
    assert points.true_positives.tolist() == [0, 1, 1, 2, 2, 2]
    assert points.false_positives.tolist() == [1, 1, 2, 3, 4, 5]
    assert points.tied_pairs == 1
    assert at_threshold(points)["threshold"] == 6


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_running_sums(count) -> None:
    numbers = np.random.default_rng(count).normal(size=(count, 4))
    np.testing.assert_allclose(accumulate(numbers.copy()), np.cumsum(numbers, axis=0))
    np.testing.assert_allclose(accumulate(numbers[:, 0].copy()), np.cumsum(numbers[:, 0]))
