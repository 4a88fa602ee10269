"""Curves through the scores of trainings, and what they say of twice the pairs."""

import numpy as np
import pytest
from simulations.forecast import simulate

from cxrflow.metrics.forecast import FAMILIES, FARTHEST, doubt, fit

SHARES = [0.1, 0.2, 0.5, 1.0]
PAIRS = np.repeat(1000 * np.array(SHARES), 3)
OWN = [(n, seed if n < 1000 else 0) for n, seed in zip(PAIRS, [0, 1, 2] * 4, strict=True)]
SHARED = PAIRS.tolist()


def scores(course, spread: float = 2e-3, effect: float = 0.0):
    """Scores about a course, with a spread of seeds and an effect of each number's own pairs."""
    rng = np.random.default_rng(0)
    of_set = effect * np.repeat([1, -1, 1, -1], 3)
    return course(PAIRS / 1000) + of_set + spread * rng.normal(size=12)


@pytest.mark.parametrize(
    "course",
    [
        lambda r: 0.9 - 0.06 * r**-0.5,
        lambda r: 0.8 + 0.05 * np.log(r),
        lambda r: 0.9 - 0.3 * np.exp(-4 * r),
        lambda r: 0.5 + 0.4 / (1 + (r / 0.3) ** -1.5),
    ],
)
def test_a_course_of_each_family_is_followed_to_twice_the_pairs(course) -> None:
    curve = fit(PAIRS, scores(course), OWN)
    twice = curve.expected(2000, 3)
    assert twice.low <= course(2.0) <= twice.high < twice.low + curve.rise / 2
    assert twice.value == pytest.approx(course(2.0), abs=0.02)
    assert doubt(curve, 3) is None
    with pytest.raises(ValueError, match="2001 pairs; expected 2000 at most"):
        curve.expected(FARTHEST * 1000 + 1, 3)


def test_an_interval_holds_those_of_all_families_that_are_not_refuted() -> None:
    """A plateau: a logarithm is not refuted by a large spread, but by a small one."""

    def plateau(r):
        return 0.9 - 0.3 * np.exp(-8 * r)

    clear, noisy = (fit(PAIRS, scores(plateau, spread), OWN) for spread in (0.001, 0.05))
    assert [*noisy.families] == [*FAMILIES]
    assert "exponential" in clear.families and "power law" not in clear.families
    assert clear.fitted["power law"].p < 0.05 < clear.fitted["exponential"].p


def test_shares_whose_pairs_all_seeds_read_say_less() -> None:
    """Three seeds on one set are not three sets."""
    values = scores(lambda r: 0.9 - 0.06 * r**-0.5, 0.004)
    own, shared = (fit(PAIRS, values, sets).expected(2000, 3) for sets in (OWN, SHARED))
    assert shared.high - shared.low > 1.2 * (own.high - own.low)


def test_an_effect_of_the_sets_is_no_lack_of_fit_where_seeds_read_the_same_pairs() -> None:
    zigzag = scores(lambda r: 0.7 + 0.05 * np.log(r), 0.002, 0.005)
    own, shared = (fit(PAIRS, zigzag, sets) for sets in (OWN, SHARED))
    assert own.fitted["power law"].p < 0.01
    assert all(
        own.fitted[name].p < shared.fitted[name].p / 3 for name in ("power law", "exponential")
    )


def test_a_curve_that_does_not_say_it_says_what_it_would_take() -> None:
    noisy = fit(PAIRS, scores(lambda r: 0.9 - 0.02 / r, 0.05), OWN)
    assert "wider than the rise so far; about" in str(doubt(noisy, 3))
    assert str(doubt(noisy, 3)).endswith("trainings a share would tell")
    assert str(doubt(noisy, 3, advice=False)).endswith("the rise so far")
    flat = fit(PAIRS, scores(lambda r: 0 * r, 0.01), OWN)
    assert "it would take larger shares" in str(doubt(flat, 3))
    jagged = fit(PAIRS, scores(lambda r: np.where(r == 0.2, 0.9, 0.7) + 0.01 * r), OWN)
    assert "lie on no curve of power law, exponential, logistic" in str(doubt(jagged, 3))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([100] * 3 + [200] * 3, "2 numbers of pairs from 100 to 200; expected 3 or more, the larg"),
        ([100, 150, 200] * 3, "3 numbers of pairs from 100 to 200; .* largest 4 times the smalle"),
        ([100, 200, 400] * 3 + [800] * 2, r"2 training\(s\) on 800 pairs; expected 3 or more of"),
        ([], "0 numbers of pairs; expected 3 or more"),
    ],
)
def test_a_curve_of_too_few_points_is_refused(pairs, message) -> None:
    with pytest.raises(ValueError, match=message):
        fit(pairs, np.linspace(0, 1, len(pairs)), [*range(len(pairs))])


def test_intervals_hold_what_comes() -> None:
    """Of 60 curves, saturating ones among them, with set effects as large as the seeds' spread."""
    rng = np.random.default_rng(2)
    families = ("power law", "exponential", "logistic")
    curves = [
        simulate(rng, family, 1.0, "each", SHARES, 3) for family in families for _ in range(20)
    ]
    holds = [inside for reason, inside in curves if reason is None]
    assert len(holds) >= 20 and np.mean(holds) >= 0.9
