"""What more training pairs would give: curves of three families through the scores of trainings.

Of n pairs, r = n / n1 of the largest number n1, a training's score is about::

    top - rise * h(r),    h from 0 at n1 to 1 at the smallest number

with a spread between seeds, and an effect of the set of pairs, which trainings on one set have in
common; its variance is one of the multiples SET_EFFECTS of the seeds'. Each family has its shapes h
on a grid of its parameters, all equally likely before. Top, rise and the logarithm of the spread
have flat priors, so that a score has a mixture of Student's t over shapes and set effects (Gelman
et al. 2013, Bayesian Data Analysis, section 14.2). A family is refuted whose best shape misses the
mean scores by more than the seeds' spread lets expect (F test of lack of fit at 5 %, whatever the
set effect). Few numbers of pairs tell no family from another, but beyond them they differ: an
interval is the union of those of the families that are left. Not of a paper; coverage is simulated
in docs/inference.md, up to twice the pairs, and no further does a curve say anything.

Shapes: P trainings, R set effects, E shapes of a family.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc, stdtr

from cxrflow.metrics.intervals import Estimate, Floats

#: Fewer numbers of pairs, a smaller ratio of the largest to the smallest, or fewer trainings of a
#: number have no curve; beyond so many times the largest nothing is said.
LEAST_NUMBERS, LEAST_RATIO, LEAST_TRAININGS, FARTHEST = 3, 4.0, 3, 2.0

SET_EFFECTS = np.array([0, 0.25, 1, 4])  # variance of a set's effect over that of seeds
REFUTED = 0.05  # size of the test of a family
STEP = 0.01  # of the rise, by which shapes of a grid differ
LEVEL = 0.97  # of a family's interval; with REFUTED at least 0.92 of the union, in theory


class Family(NamedTuple):
    """``shape``: of the ratio of pairs, by parameters; ``parameters``: of its shapes, [E, 1]."""

    shape: Callable[..., Floats]
    parameters: Sequence[Floats]


def _power(ratio: Floats, exponent: Floats) -> Floats:
    """(r^-exponent - 1) / exponent; for an exponent of 0 its limit. Below 0 it grows steeper."""
    log_ratio, is_log = np.log(ratio), np.abs(exponent) < 1e-9
    safe = np.where(is_log, 1, exponent)
    return np.where(is_log, -log_ratio, np.expm1(-safe * log_ratio) / safe)


def _grid(*values: Floats) -> list[Floats]:
    return [axis.reshape(-1, 1) for axis in np.meshgrid(*values)]


FAMILIES = {
    "power law": Family(_power, _grid(np.linspace(-0.6, 2, 27))),
    "exponential": Family(lambda r, rate: np.exp(-rate * r), _grid(np.geomspace(0.5, 16, 20))),
    # Logistic in log n: the middle of its S at so many times the pairs, and its steepness there.
    "logistic": Family(
        lambda r, middle, steepness: -1 / (1 + (r / middle) ** -steepness),
        _grid(np.geomspace(0.05, 4, 11), np.geomspace(0.5, 3, 6)),
    ),
}


@dataclass(frozen=True)
class Fitted:
    """A family given the scores: ``log_weight_RE`` also tells families apart, ``p`` of its fit.

    ``best_RE2``, ``inverse_RE22``, ``rest_RE``: top and rise, the inverse of their squares, and the
    sum of squares that they leave.
    """

    family: Family
    p: float
    log_weight_RE: Floats
    best_RE2: Floats
    inverse_RE22: Floats
    rest_RE: Floats


@dataclass(frozen=True)
class Curve:
    """The families through the scores of trainings on ``pairs_P`` pairs, of the sets ``set_P``."""

    pairs_P: Floats
    score_P: Floats
    set_P: Sequence[Hashable]
    fitted: dict[str, Fitted]

    @property
    def largest(self) -> float:
        """The largest number of pairs."""
        return float(self.pairs_P.max())

    @property
    def families(self) -> dict[str, Fitted]:
        """The families that are not refuted."""
        return {name: each for name, each in self.fitted.items() if each.p >= REFUTED}

    @property
    def rise(self) -> float:
        """How far the mean score has moved from the smallest number to the largest."""
        ends = [self.pairs_P == end(self.pairs_P) for end in (np.min, np.max)]
        first, last = (float(self.score_P[at].mean()) for at in ends)
        return abs(last - first)

    def expected(self, pairs: float, trainings: int) -> Estimate:
        """Expected mean of the scores of some trainings on another set of so many pairs.

        Raises:
            ValueError: more pairs than FARTHEST times the largest number, or no family fits.
        """
        if pairs > FARTHEST * self.largest or not self.families:
            raise ValueError(f"{pairs:g} pairs; expected {FARTHEST * self.largest:g} at most")
        mixtures = [self._mixture(each, pairs, trainings) for each in self.families.values()]
        tail, freedom = (1 - LEVEL) / 2, len(self.score_P) - 2
        low, high = np.transpose([_quantiles(m, freedom, tail, 1 - tail) for m in mixtures])
        place, spread, log_weight = map(np.concatenate, zip(*mixtures, strict=True))
        (value,) = _quantiles((place, spread, log_weight), freedom, 0.5)
        return Estimate(float(value), float(low.min()), float(high.max()), len(self.score_P))

    def _mixture(
        self, fitted: Fitted, pairs: float, trainings: int
    ) -> tuple[Floats, Floats, Floats]:
        """Places, spreads and logarithms of the weights of Student's t of a mean score."""
        h_E = _shapes(fitted.family, np.array([pairs / self.largest]), self.pairs_P)[:, 0]
        design_E2 = np.stack([np.ones_like(h_E), -h_E], axis=-1)
        place_RE = (fitted.best_RE2 * design_E2).sum(axis=-1)
        of_line_RE = np.einsum("ei,reij,ej->re", design_E2, fitted.inverse_RE22, design_E2)
        variance_RE = of_line_RE + SET_EFFECTS[:, None] + 1 / trainings
        spread_RE = np.sqrt(variance_RE * fitted.rest_RE / (len(self.score_P) - 2))
        return place_RE.ravel(), spread_RE.ravel(), fitted.log_weight_RE.ravel()


def _quantiles(mixture: tuple[Floats, Floats, Floats], freedom: int, *levels: float) -> Floats:
    """Quantiles of a mixture of Student's t, by bisection."""
    place, spread, log_weight = mixture
    weight = np.exp(log_weight - log_weight.max())
    counts = weight > 1e-4
    place, spread, weight = place[counts], spread[counts], weight[counts] / weight[counts].sum()
    low = np.full(len(levels), (place - 60 * spread).min())
    high = np.full(len(levels), (place + 60 * spread).max())
    for _ in range(30):
        middle = (low + high) / 2
        below = (weight * stdtr(freedom, (middle[:, None] - place) / spread)).sum(axis=1) < levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2, np.float64)


def _shapes(family: Family, ratio: Floats, pairs_P: Floats) -> Floats:
    """Each shape of a family at some ratios of pairs, [E, ratios]: 0 at 1, 1 at the smallest."""
    first, last, value = (
        family.shape(r, *family.parameters)
        for r in (pairs_P.min() / pairs_P.max(), 1.0, ratio[None])
    )
    return (value - last) / (first - last)


def fit(pairs_P: ArrayLike, scores_P: ArrayLike, set_P: Sequence[Hashable]) -> Curve:
    """Fit the families to the scores of trainings; equal ``set_P`` read the same pairs.

    Raises:
        ValueError: too few numbers of pairs, too few trainings of one, or the numbers lie too near
            each other.
    """
    number_P, score_P = np.asarray(pairs_P, np.float64), np.asarray(scores_P, np.float64)
    numbers_G, trainings_G = np.unique(number_P, return_counts=True)
    if len(numbers_G) < LEAST_NUMBERS or numbers_G[-1] < LEAST_RATIO * numbers_G[0]:
        numbers = f"{len(numbers_G)} numbers of pairs" + (
            f" from {numbers_G[0]:g} to {numbers_G[-1]:g}" if len(numbers_G) else ""
        )
        raise ValueError(
            f"{numbers}; expected {LEAST_NUMBERS} or more, the largest {LEAST_RATIO:g} times the "
            "smallest"
        )
    if trainings_G.min() < LEAST_TRAININGS:
        fewest = int(trainings_G.argmin())
        raise ValueError(
            f"{trainings_G[fewest]} training(s) on {numbers_G[fewest]:g} pairs; expected "
            f"{LEAST_TRAININGS} or more of each number"
        )
    place_P = np.unique([repr(name) for name in set_P], return_inverse=True)[1]
    same_PP = place_P[:, None] == place_P
    root_RPP = np.linalg.cholesky(np.eye(len(score_P)) + SET_EFFECTS[:, None, None] * same_PP)
    whitening_RPP = np.linalg.inv(root_RPP)
    log_root_R = np.log(np.diagonal(root_RPP, axis1=1, axis2=2)).sum(axis=1)
    mean_PG = (number_P[:, None] == numbers_G).astype(np.float64)
    # No sum of squares is 0: a perfect fit would leave no spread.
    least = 1e-12 * max(score_P.var() * len(score_P), 1e-12)
    seeds_R = np.maximum(_solved(whitening_RPP @ mean_PG, whitening_RPP @ score_P)[2], least)
    # Grids have steps: no family fits better than to about a hundredth of the rise.
    freedom = len(score_P) - len(numbers_G)
    coarse = freedom * (STEP * np.ptp([score_P[number_P == n].mean() for n in numbers_G])) ** 2
    spread_R = np.maximum(seeds_R, coarse) / freedom
    fitted = {}
    for name, family in FAMILIES.items():
        h_EP = _shapes(family, number_P / numbers_G[-1], number_P)
        design_EP2 = np.stack([np.ones_like(h_EP), -h_EP], axis=-1)
        white_REP2 = whitening_RPP[:, None] @ design_EP2
        best_RE2, inverse_RE22, rest_RE = _solved(white_REP2, (whitening_RPP @ score_P)[:, None])
        rest_RE = np.maximum(rest_RE, least)
        log_weight_RE = np.linalg.slogdet(inverse_RE22)[1] / 2 - log_root_R[:, None]
        log_weight_RE -= (len(score_P) - 2) / 2 * np.log(rest_RE) + np.log(rest_RE.size)
        missing = max(len(numbers_G) - 2 - len(family.parameters), 1)
        misses_R = np.maximum(rest_RE.min(axis=1) - seeds_R, 0) / missing
        p = float(fdtrc(missing, freedom, misses_R / spread_R).max())
        fitted[name] = Fitted(family, p, log_weight_RE, best_RE2, inverse_RE22, rest_RE)
    return Curve(number_P, score_P, set_P, fitted)


def _solved(design: Floats, score: Floats) -> tuple[Floats, Floats, Floats]:
    """Least squares of many designs [..., P, k]: the best, the inverse of squares, the rest."""
    transposed = design.swapaxes(-1, -2)
    inverse = np.asarray(np.linalg.inv(transposed @ design), np.float64)
    best = (inverse @ (transposed @ score[..., None]))[..., 0]
    rest = ((score - (design @ best[..., None])[..., 0]) ** 2).sum(axis=-1)
    return best, inverse, rest


def doubt(curve: Curve, trainings: int, advice: bool = True) -> str | None:
    """Why a curve does not say what twice the pairs would give; None where it does.

    It does where a family fits, and the interval is not wider than the rise so far. ``advice``: the
    reason says what it would take to know, which costs up to three more fits.
    """
    if not curve.families:
        return (
            "the scores lie on no curve of "
            f"{', '.join(FAMILIES)} (p < {REFUTED:g}); more shares would show their course"
        )
    if not _too_wide(curve, trainings):
        return None
    reason = "the interval at twice the pairs is wider than the rise so far"
    if not advice:
        return reason
    times = next((n for n in (2, 4, 8) if not _too_wide(_repeated(curve, n), n * trainings)), None)
    if times is None:
        return f"{reason}; it would take larger shares, more trainings of these would not do"
    return f"{reason}; about {times * trainings} trainings a share would tell"


def _too_wide(curve: Curve, trainings: int) -> bool:
    """True if the interval at twice the pairs is wider than the rise so far, or no family fits."""
    if not curve.families:
        return True
    twice = curve.expected(FARTHEST * curve.largest, trainings)
    return twice.high - twice.low > curve.rise


def _repeated(curve: Curve, times: int) -> Curve:
    """The curve of so many times as many trainings, as spread as these about the likeliest shape.

    Sets that one training read stand for others of their kind, sets of several are the same again.
    """
    likeliest = max(curve.families.values(), key=lambda each: each.log_weight_RE.max())
    best = np.unravel_index(likeliest.log_weight_RE.argmax(), likeliest.log_weight_RE.shape)
    h_P = _shapes(likeliest.family, curve.pairs_P / curve.largest, curve.pairs_P)[best[1]]
    top, rise = likeliest.best_RE2[best]
    score_P = curve.score_P + top - rise * h_P
    for number in np.unique(curve.pairs_P):
        score_P[curve.pairs_P == number] -= curve.score_P[curve.pairs_P == number].mean()
    alone = [list(curve.set_P).count(name) == 1 for name in curve.set_P]
    sets = [
        (name, n if single else 0)
        for n in range(times)
        for name, single in zip(curve.set_P, alone, strict=True)
    ]
    return fit(np.tile(curve.pairs_P, times), np.tile(score_P, times), sets)
