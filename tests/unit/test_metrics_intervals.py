"""Bootstrap over samples: draws, clusters, undefined resamples; Holm's correction."""

import math

import numpy as np
import pytest
from scipy import stats

from cxrflow.metrics import intervals
from cxrflow.metrics.intervals import (
    Estimate,
    bootstrap,
    clusters_of,
    holm,
    percentile_interval,
    resamples,
    weighted_mean,
)


def mean_of(values):
    return lambda counts: {"mean": weighted_mean(counts, values)}


def test_the_mean_s_interval_is_that_of_theory():
    values = np.random.default_rng(0).normal(2.0, 3.0, size=400)
    estimate = bootstrap(mean_of(values), np.arange(400), {"mean": 400}, replicates=4000)["mean"]
    half = 1.96 * values.std() / math.sqrt(400)
    assert estimate.value == pytest.approx(values.mean()) and estimate.n == 400
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_it_agrees_with_scipy():
    values = np.random.default_rng(4).exponential(size=60)
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    estimate = bootstrap(mean_of(values), np.arange(60), {"mean": 60}, replicates=5000)["mean"]
    assert estimate.low == pytest.approx(reference.low, abs=0.03)
    assert estimate.high == pytest.approx(reference.high, abs=0.03)


def test_samples_of_a_patient_are_drawn_together():
    # Ten copies of each value: as many samples, but no more information than the 40 patients.
    values = np.repeat(np.random.default_rng(2).normal(size=40), 10)
    patients = np.repeat([f"p{i}" for i in range(40)], 10)
    counts = next(resamples(clusters_of(patients), 50, seed=0))
    assert (counts.reshape(50, 40, 10) == counts.reshape(50, 40, 10)[:, :, :1]).all()
    naive = bootstrap(mean_of(values), np.arange(400), {"mean": 400}, 1000)["mean"]
    honest = bootstrap(mean_of(values), clusters_of(patients), {"mean": 400}, 1000)["mean"]
    ratio = (honest.high - honest.low) / (naive.high - naive.low)
    assert ratio == pytest.approx(math.sqrt(10), rel=0.15)


def test_clusters():
    assert clusters_of(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert clusters_of(["b", None, "b", None, float("nan")]).tolist() == [0, 1, 0, 2, 3]
    assert clusters_of(["b", "b"], "sample").tolist() == [0, 1]
    assert clusters_of([None, None]).tolist() == [0, 1]


def test_draws_do_not_depend_on_the_block_size(monkeypatch):
    counts = np.concatenate(list(resamples(np.arange(30), 25, seed=7)))
    monkeypatch.setattr(intervals, "_BLOCK", 100)
    blocks = list(resamples(np.arange(30), 25, seed=7))
    assert len(blocks) > 5
    np.testing.assert_array_equal(np.concatenate(blocks), counts)
    assert (counts.sum(axis=1) == 30).all()


def test_undefined_resamples_are_left_out():
    assert percentile_interval([1.0, float("nan"), 3.0], 0.5) == (1.5, 2.5)
    assert all(map(math.isnan, percentile_interval([float("nan")])))
    assert all(map(math.isnan, percentile_interval([2.0, 2.0], clusters=1)))  # one patient
    assert Estimate(float("nan"), float("nan"), 1.0, 0).as_json() == {
        "value": None, "low": None, "high": 1.0, "n": 0,
    }  # fmt: skip


def test_holm_steps_down():
    # 0.01 x 3; 0.03 x 2; 0.04 x 1 would be below the one before it.
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.5]).tolist() == [1.0, 1.0] and holm([]).tolist() == []


def test_weighted_means():
    counts = np.array([[1.0, 2.0, 0.0, 9.0], [0.0, 0.0, 0.0, 1.0]])
    means = weighted_mean(counts, [1.0, 4.0, 7.0, float("nan")])
    assert means[0] == 3.0 and np.isnan(means[1])
    assert weighted_mean(counts, [1.0, 4.0, 7.0, 2.0], [True, False, True, True])[0] == 1.9


def test_the_interval_of_one_training_covers_its_value():
    """Nominally 95 %; 92 % without the expansion (docs/inference.md)."""
    rng = np.random.default_rng(3)
    hits = 0
    for values in rng.normal(size=(1500, 40)):
        estimate = bootstrap(mean_of(values), np.arange(40), {"mean": 40}, replicates=300)["mean"]
        hits += estimate.low <= 0 <= estimate.high
    assert 0.93 <= hits / 1500 <= 0.97
    replicates = np.arange(10_001.0)
    bare, expanded = percentile_interval(replicates), percentile_interval(replicates, clusters=40)
    outside = stats.norm.cdf(math.sqrt(40 / 39) * stats.t.ppf(0.025, 39))
    assert bare == pytest.approx((250, 9750)) and expanded[0] == pytest.approx(10_000 * outside)
