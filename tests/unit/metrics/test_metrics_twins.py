"""The test of a model among its twins: exact size, ties, several terms, any number of pairs."""

from itertools import combinations

import numpy as np
import pytest
import torch
from simulations.twins import shares

from cxrflow.metrics.twins import TWINS, twin_p

REPETITIONS = 4000


def test_a_model_above_all_twins_has_one_chance_in_twenty() -> None:
    twins = np.linspace(0.4, 0.6, TWINS)
    assert twin_p([0.61], [twins]) == 1 / (TWINS + 1) == 0.05
    assert twin_p([0.595], [twins]) == 2 / (TWINS + 1)
    assert twin_p([0.3], [twins]) == 1
    assert twin_p([0.6 + 1e-12], [twins]) == 2 / (TWINS + 1)  # by rounding alone
    assert twin_p([0.5], [[0.5] * TWINS]) == 1  # nothing was drawn, and nothing learnt


def test_the_term_that_stands_out_most_counts() -> None:
    rng = np.random.default_rng(1)
    dull, sharp = rng.normal(0.5, 0.1, TWINS), rng.normal(0.5, 0.01, TWINS)
    assert twin_p([0.5, 0.6], [dull, sharp]) == 0.05
    assert twin_p([0.5, 0.5], [dull, sharp]) > 0.05
    # Each term is measured in its own deviations.
    assert twin_p([0.5, 6.0], [dull, 10 * sharp]) == twin_p([0.5, 0.6], [dull, sharp])


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("tail", ["normal", "heavy"])
def test_size_is_five_per_cent_whatever_the_distribution(terms: int, tail: str) -> None:
    """Of terms that correlate, with twins and model alike."""
    rng = np.random.default_rng([terms, len(tail)])
    draws = rng.normal(size=(REPETITIONS, terms, TWINS + 1))
    draws += rng.normal(size=(REPETITIONS, 1, TWINS + 1))
    values = draws if tail == "normal" else np.exp(2 * draws)
    ps = np.array([twin_p(each[:, 0], each[:, 1:]) for each in values])
    assert 0.04 <= np.mean(ps <= 0.05) <= 0.06
    assert 0.45 <= np.mean(ps <= 0.5) <= 0.55


def test_every_order_of_the_values_is_as_likely() -> None:
    """Exactly: each of the N + 1 values in the model's place, of two terms."""
    value_TM = np.random.default_rng(2).normal(size=(2, TWINS + 1))
    ps = sorted(
        twin_p(value_TM[:, place], np.delete(value_TM, place, axis=1)) for place in range(TWINS + 1)
    )
    assert ps == pytest.approx(np.arange(1, TWINS + 2) / (TWINS + 1))
    assert all(a < b for a, b in combinations(ps, 2))


@pytest.mark.parametrize("pairs", [64, 1000])
def test_size_of_the_rule_at_any_number_of_pairs(pairs: int) -> None:
    """Untrained models pass for permuted ones the less, the more pairs; among twins one in 20."""
    random, repetitions = torch.Generator().manual_seed(5), 4
    found = [shares(pairs, 50, random, ["untrained"])["untrained"] for _ in range(repetitions)]
    by_twins, by_permuted_pairs = np.mean(found, axis=0)
    assert by_twins <= 0.096  # three standard errors of 200 models above 5 %
    if pairs == 1000:
        assert by_permuted_pairs > 0.15
