"""A power law of scores over the number of training pairs, and what more pairs let expect.

Of n pairs, the largest number being n1, a training's score is normal about::

    top - slope * ((n / n1)^(-exponent) - 1) / exponent

with one spread for all: ``top`` is the score at n1, ``slope`` its gain there for each e-fold of
pairs, and an exponent of 0 is a logarithm without an end. The exponent has a flat prior in [0, 2];
top, slope and the logarithm of the spread have flat ones, so that all but the exponent is drawn in
closed form (Gelman et al. 2013, Bayesian Data Analysis, section 14.2). Intervals hold the middle of
the draws. Not of a paper; coverage is simulated in docs/inference.md.

A curve whose gain for each e-fold of pairs still grows, as that of a training that has just begun
to learn, has an exponent below 0. Where that ends is not known, so that nothing is expected of it.

Shapes: P trainings, S draws, E exponents.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from cxrflow.metrics.intervals import Estimate, Floats

_EXPONENTS = np.linspace(0, 2, 81)
_ANY_EXPONENTS = np.linspace(-2, 2, 161)
_DRAWS = 20_000

#: Fewer numbers of pairs, or a smaller ratio of the largest to the smallest, have no curve.
LEAST_NUMBERS, LEAST_RATIO = 3, 4.0


class PowerLaw(NamedTuple):
    """Draws [S] of the law that fits scores; ``largest``: the largest number of pairs."""

    largest: float
    trainings: int
    exponent_S: Floats
    top_S: Floats
    slope_S: Floats
    spread_S: Floats
    steepens: bool  # of a flat prior in [-2, 2], the middle of the exponents lies below 0

    def curve(self, pairs: float) -> Floats:
        """Expected score [S] of trainings on so many pairs."""
        return self.top_S - self.slope_S * _shape(pairs / self.largest, self.exponent_S)

    def expected(self, pairs: float, trainings: int, level: float = 0.95) -> Estimate:
        """Expected mean of the scores of some trainings on so many pairs, with its interval."""
        noise_S = np.random.default_rng(1).normal(size=len(self.top_S))
        return self._estimate(self.curve(pairs) + self.spread_S * noise_S / trainings**0.5, level)

    def exponent(self, level: float = 0.95) -> Estimate:
        """The exponent with its interval."""
        return self._estimate(self.exponent_S, level)

    def slope(self, level: float = 0.95) -> Estimate:
        """The gain for each e-fold of pairs at the largest number, with its interval."""
        return self._estimate(self.slope_S, level)

    def _estimate(self, values_S: Floats, level: float) -> Estimate:
        outside = (1 - level) / 2
        low, value, high = np.quantile(values_S, [outside, 0.5, 1 - outside])
        return Estimate(float(value), float(low), float(high), self.trainings)


def fit(pairs_P: ArrayLike, scores_P: ArrayLike, seed: int = 0) -> PowerLaw:
    """Fit the law to the scores of trainings on some numbers of pairs.

    Raises:
        ValueError: fewer than three numbers of pairs, or they lie too near each other.
    """
    number_P, score_P = np.asarray(pairs_P, np.float64), np.asarray(scores_P, np.float64)
    different = np.unique(number_P)
    if len(different) < LEAST_NUMBERS or different[-1] < LEAST_RATIO * different[0]:
        raise ValueError(
            f"{len(different)} numbers of pairs from {different[0]:g} to {different[-1]:g}; "
            f"expected {LEAST_NUMBERS} or more, the largest {LEAST_RATIO:g} times the smallest"
        )
    ratio_P, freedom = number_P / different[-1], len(score_P) - 2
    any_weight_E = _fitted(ratio_P, score_P, _ANY_EXPONENTS)[0]
    steepens = bool(any_weight_E[_ANY_EXPONENTS < 0].sum() > 0.975)
    weight_E, best_E2, inverse_E22, rest_E = _fitted(ratio_P, score_P, _EXPONENTS)
    rng = np.random.default_rng(seed)
    place_S = rng.choice(len(_EXPONENTS), size=_DRAWS, p=weight_E / weight_E.sum())
    spread_S = np.sqrt(rest_E[place_S] / rng.chisquare(freedom, _DRAWS))
    root_E22 = np.linalg.cholesky(inverse_E22)
    drawn_S2 = (root_E22[place_S] @ rng.normal(size=(_DRAWS, 2, 1)))[..., 0]
    law_S2 = best_E2[place_S] + spread_S[:, None] * drawn_S2
    top_S, slope_S = law_S2.T
    exponent_S = _EXPONENTS[place_S]
    law = (float(different[-1]), len(score_P), exponent_S, top_S, slope_S, spread_S)
    return PowerLaw(*law, steepens)


def _fitted(
    ratio_P: Floats, score_P: Floats, exponents_E: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Weights [E] of exponents, and for each of them the best top and slope [E, 2], the inverse of
    their squares [E, 2, 2] and the sum of squares that they leave [E]."""
    shape_EP = _shape(ratio_P, exponents_E[:, None])
    design_EP2 = np.stack([np.ones_like(shape_EP), -shape_EP], axis=-1)
    squares_E22 = design_EP2.swapaxes(1, 2) @ design_EP2
    inverse_E22 = np.asarray(np.linalg.inv(squares_E22), np.float64)
    best_E2 = (inverse_E22 @ design_EP2.swapaxes(1, 2) @ score_P[:, None])[..., 0]
    rest_E = ((score_P - (design_EP2 @ best_E2[..., None])[..., 0]) ** 2).sum(axis=1)
    # A perfect fit leaves no spread to draw.
    rest_E = np.maximum(rest_E, 1e-12 * max(score_P.var() * len(score_P), 1e-12))
    freedom = len(score_P) - 2
    log_E = -np.linalg.slogdet(squares_E22)[1] / 2 - freedom / 2 * np.log(rest_E)
    return np.exp(log_E - logsumexp(log_E)), best_E2, inverse_E22, rest_E


def doubt(law: PowerLaw, pairs_P: ArrayLike, trainings: int) -> str | None:
    """Return why a curve does not say what more pairs would give, or None where it does.

    Too flat: the interval of its slope at the end contains 0. Too early: it grows steeper, so that
    no power law fits. Too noisy: the interval at twice the pairs is wider than the rise from the
    smallest number to the largest.
    """
    slope = law.slope()
    if slope.low <= 0:
        return "too flat: its rise at the end may be 0"
    if law.steepens:
        return "too early: it still grows steeper, and a power law never does"
    twice = law.expected(2 * law.largest, trainings)
    rise = float(np.median(law.top_S - law.curve(float(np.min(pairs_P)))))
    if twice.high - twice.low > rise:
        return "too noisy: the interval at twice the pairs is wider than the rise so far"
    return None


def _shape(ratio: ArrayLike, exponent: Floats) -> Floats:
    """(ratio^-exponent - 1) / exponent; for an exponent of 0, its limit."""
    log_ratio = np.log(np.asarray(ratio, np.float64))
    safe = np.where(exponent == 0, 1, exponent)
    return np.where(exponent == 0, -log_ratio, np.expm1(-safe * log_ratio) / safe)
