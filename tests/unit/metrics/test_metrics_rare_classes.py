"""Classes with few positives: intervals that hold, counts, and means of the same classes."""

import numpy as np
import pytest
from scipy.stats import norm
from simulations import rare_classes as simulation

from cxrflow.benchmarks.classification.scores import class_metrics
from cxrflow.benchmarks.classification.settings import LabelSettings
from cxrflow.benchmarks.result import estimate
from cxrflow.benchmarks.settings import IntervalSettings
from cxrflow.metrics.rare_classes import FEW, Sides, Supports, area_interval

COUNT = 200
SETTINGS = LabelSettings(metrics=["auroc", "average_precision", "f1"])
INTERVALS = IntervalSettings(replicates=200)


@pytest.mark.parametrize("positives", [2, 5])
@pytest.mark.parametrize("area", [0.6, 0.95])
def test_intervals_hold_at_few_positives(positives: int, area: float) -> None:
    """Nominally 95 % (docs/inference.md)."""
    share, width = simulation.of_an_area((positives,), area, 40)
    assert share >= 0.9 and width < 0.8


def test_the_interval_of_a_mean_holds() -> None:
    classes = (2, 3, 4, 5, 60, 60, 60, 60)
    share, width = simulation.of_an_area(classes, 0.8, 12)
    assert share >= 0.75 and width < 0.25
    share, width = simulation.of_a_difference(classes, 0.8, 12)
    assert share >= 0.75 and width < 0.35


def test_an_area_s_interval_is_that_of_ranks() -> None:
    # Hanley and McNeil's variance by hand, on the logit scale.
    q1, q2 = 0.8 / 1.2, 2 * 0.64 / 1.8
    variance = (0.16 + 9 * (q1 - 0.64) + 89 * (q2 - 0.64)) / 900
    half = norm.ppf(0.975) * np.sqrt(variance) / 0.16
    ends = 1 / (1 + np.exp(-(np.log(4) + np.array([-half, half]))))
    assert area_interval(0.8, 0.0, (10, 90)) == pytest.approx(ends)
    assert area_interval(0.8, 4 * variance, (10, 90))[0] < ends[0]
    # Wholly right order is not certainty: Wilson's interval of two of two.
    low, high = area_interval(1.0, 0.0, (2, 500))
    assert low == pytest.approx(1 / (1 + norm.ppf(0.975) ** 2 / 2)) and high == 1


def test_a_patient_s_samples_are_no_more_patients() -> None:
    labels = np.array([1, 1, 1, 1, 0, 0, np.nan])
    sides = Sides.of(labels, np.array([0, 0, 0, 1, 2, 3, 4]))
    assert sides.as_json() == {
        "positives": 4, "negatives": 2, "positive_patients": 2, "negative_patients": 2,
    }  # fmt: skip
    assert sides.effective == (16 / 10, 2)


def classes(*positives: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Labels and scores [N, C] with so many positives of each class, and their names."""
    rng = np.random.default_rng(0)
    labels = np.zeros((COUNT, len(positives)))
    for column, number in enumerate(positives):
        labels[rng.choice(COUNT, number, replace=False), column] = 1
    return labels, rng.normal(size=labels.shape) + labels, [f"c{n}" for n in positives]


def test_what_is_said_of_none_one_and_few_positives() -> None:
    labels, scores, names = classes(0, 1, 2, 30)
    metrics = estimate(class_metrics(labels, scores, names, SETTINGS), np.arange(COUNT), INTERVALS)
    assert np.isnan(metrics["auroc/c0"].value) and metrics["auroc/c0"].counts["positives"] == 0
    assert np.isfinite(metrics["auroc/c1"].value) and np.isnan(metrics["auroc/c1"].low)
    assert metrics["auroc/c2"].low < metrics["auroc/c2"].value < metrics["auroc/c2"].high
    # Other metrics of two positives have none; of thirty they do.
    for name in ("f1", "average_precision"):
        assert np.isnan(metrics[f"{name}/c2"].low) and np.isfinite(metrics[f"{name}/c30"].low)
        assert np.isnan(metrics[name].low)
    mean = metrics["auroc"]
    assert mean.value == pytest.approx(np.mean([metrics[f"auroc/c{n}"].value for n in (1, 2, 30)]))
    assert mean.low < mean.value < mean.high and mean.counts["least_positives"] == 1
    assert (metrics["classes"].low, metrics["classes"].high) == (3, 3)


def test_a_mean_is_of_the_same_classes_in_every_resample() -> None:
    labels, scores, names = classes(1, 30)
    scores[:, 0], scores[:, 1] = -labels[:, 0], labels[:, 1]  # AUROCs of 0 and 1
    counts = np.ones((2, COUNT))
    counts[1, labels[:, 0] == 1] = 0
    values = class_metrics(labels, scores, names, SETTINGS)(counts)
    assert np.isnan(values["auroc/c1"][1]) and values["auroc"].tolist() == [0.5, 0.5]


def test_many_positives_have_the_bootstrap() -> None:
    labels, scores, names = classes(FEW)
    statistic = class_metrics(labels, scores, [], SETTINGS)
    supports = Supports(statistic.labels, np.arange(COUNT))
    values, replicates = supports.replicated(statistic, 200, 0)
    ends = supports.interval("auroc", values, replicates, COUNT)
    assert ends == pytest.approx(np.quantile(replicates["auroc"], [0.025, 0.975]), abs=0.01)
