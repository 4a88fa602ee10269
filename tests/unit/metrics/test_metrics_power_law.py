"""Power laws of scores over the number of training pairs."""

import numpy as np
import pytest

from cxrflow.metrics.power_law import doubt, fit

SHARES = np.array([0.1, 0.2, 0.5, 1.0])
PAIRS, SEEDS = 3000, 3


def curve(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs and scores of three trainings a share, about a power law with an end below 1."""
    end, exponent = rng.uniform(0.7, 0.95), rng.uniform(0.2, 1.2)
    rise, spread = rng.uniform(0.03, 0.3), rng.uniform(0.004, 0.02)
    pairs = np.repeat(PAIRS * SHARES, SEEDS)
    fall = rise / (0.1**-exponent - 1)
    means = end - fall * ((pairs / PAIRS) ** -exponent - 1)
    return pairs, means + spread * rng.normal(size=len(pairs))


def test_a_law_without_noise_is_found() -> None:
    pairs = np.repeat([100, 200, 400, 1000], 3)
    scores = 0.9 - 2 * pairs**-0.5 + 1e-6 * np.random.default_rng(0).normal(size=12)
    law = fit(pairs, scores)
    assert law.exponent().value == pytest.approx(0.5, abs=0.03)
    found = law.expected(4000, 3)
    assert found.value == pytest.approx(0.9 - 2 * 4000**-0.5, abs=2e-3)
    assert found.low <= found.value <= found.high
    assert doubt(law, pairs, 3) is None
    gain = 2 * 0.5 * 1000**-0.5  # the derivative by the logarithm of the pairs
    assert law.slope().value == pytest.approx(gain, rel=0.05)


def test_a_logarithm_is_a_law_with_exponent_zero() -> None:
    pairs = np.repeat([100, 200, 400, 1000], 3)
    scores = 0.3 + 0.05 * np.log(pairs) + 1e-6 * np.random.default_rng(0).normal(size=12)
    law = fit(pairs, scores)
    assert law.exponent().value < 0.03
    assert law.expected(2000, 3).value == pytest.approx(0.3 + 0.05 * np.log(2000), abs=1e-3)


def test_the_value_at_all_pairs_lies_in_the_interval_of_the_smaller_shares() -> None:
    """Fitted on 10 to 50 %: in at least 90 of 100 simulated curves."""
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(100):
        pairs, scores = curve(rng)
        all_pairs = pairs == PAIRS
        found = fit(pairs[~all_pairs], scores[~all_pairs]).expected(PAIRS, SEEDS)
        inside.append(found.low <= scores[all_pairs].mean() <= found.high)
    assert sum(inside) >= 90


def test_a_curve_that_says_nothing_is_said_to_be_one() -> None:
    rng = np.random.default_rng(0)
    pairs = np.repeat(PAIRS * SHARES, SEEDS)
    flat = fit(pairs, 0.7 + 0.01 * rng.normal(size=12))
    assert "too flat" in str(doubt(flat, pairs, SEEDS))
    once = PAIRS * SHARES
    rising = 0.5 + 0.03 * np.log(once)
    reasons = [
        str(doubt(fit(once, rising + 0.005 * rng.normal(size=4)), once, 1)) for _ in range(9)
    ]
    assert any("too noisy" in reason for reason in reasons)
    for few in ([100, 100, 200, 200], [100, 150, 200]):
        with pytest.raises(
            ValueError, match="expected 3 or more, the largest 4 times the smallest"
        ):
            fit(few, np.ones(len(few)))


def test_a_curve_that_grows_steeper_has_no_law() -> None:
    """The middle of an S: a training that has just begun to learn with all pairs."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(PAIRS * SHARES, SEEDS)

    def begun(number):
        return 0.5 + 0.42 / (1 + (number / PAIRS) ** -2.0)

    law = fit(pairs, begun(pairs) + 0.008 * rng.normal(size=len(pairs)))
    assert law.expected(2 * PAIRS, SEEDS).high < begun(2 * PAIRS)  # what it would have said
    assert "too early" in str(doubt(law, pairs, SEEDS))
    assert not any(fit(*curve(rng)).steepens for _ in range(20))
