"""Intervals and tests over trainings and samples at once, for scores of several trainings.

Each of S trainings (seeds) is scored on the same P patients, so the two are crossed, as readers and
cases are in a reader study. The variance of the mean score is that of Obuchowski and Rockette
(1995, Commun Stat Simul Comput 24:285; one modality: Hillis 2014, Stat Med 33:330)::

    between / S + common

``between`` is the variance of the S scores; it holds the trainings' own spread and the part of the
patients' that differs between trainings. ``common`` is the covariance of two trainings' scores over
resampled patients: what is hard for all of them, which more trainings do not make smaller. It comes
from a bootstrap, so that any score will do, and is multiplied by P / (P - 1), by which a bootstrap
of few is too narrow (Hesterberg 2015, Am Stat 69:371).

The interval is Student's. Satterthwaite's degrees of freedom cover 92 % at three trainings whose
spread is large beside the patients' (simulated: docs/inference.md). His formula has the squares of
both parts' shares in the variance; we take the shares themselves::

    1 / df = share_between / (S - 1) + share_common / (P - 1)

A difference of two models is the same with the differences of trainings of one seed as scores. One
training alone leaves ``common``: that interval is over patients, for this training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from cxrflow.metrics.intervals import Floats, Statistic, replicated
from cxrflow.metrics.rare_classes import Supports

DIFFERENCE = "difference"


class Student(NamedTuple):
    """Ends of the interval, and the two-sided p of "it is zero"; NaN where undefined."""

    low: Any
    high: Any
    p: Any


class Spread(NamedTuple):
    """Variance of one training's score between trainings, and what is common to all of them."""

    between: Any
    common: Any


@dataclass(frozen=True)
class Resampled:
    """A training's scores by name: on all samples, and on each of R resamples of them [R]."""

    value: Mapping[str, float]
    replicates: Mapping[str, Floats]

    def minus(self, baseline: "Resampled", name: str, other_name: str) -> "Resampled":
        """Score ``name`` less the baseline's ``other_name``, as ``DIFFERENCE``; or nothing, where
        one is missing."""
        if name not in self.value or other_name not in baseline.value:
            return Resampled({}, {})
        return Resampled(
            {DIFFERENCE: self.value[name] - baseline.value[other_name]},
            {DIFFERENCE: self.replicates[name] - baseline.replicates[other_name]},
        )


def resampled(
    statistic: Statistic,
    clusters: ArrayLike,
    replicates: int = 2000,
    seed: int = 0,
    supports: Supports | None = None,
) -> Resampled:
    """Scores of one training; equal clusters and seeds give the same resamples.

    ``supports``: with corrections for rare classes.
    """
    if supports is not None:
        return Resampled(*supports.replicated(statistic, replicates, seed))
    return Resampled(*replicated(statistic, clusters, replicates, seed))


def student(
    scores_S: ArrayLike,
    covariance_SS: ArrayLike,
    patients: float,
    level: float = 0.95,
    unbiased: bool = False,
) -> Student:
    """Interval of the mean of S scores with this covariance over ``patients``, as above.

    Leading axes are separate cases. NaN with fewer than two patients, where they matter.
    ``unbiased``: the covariance is, and needs no correction for them.
    """
    scores = np.asarray(scores_S, float)
    trainings = scores.shape[-1]
    spread = variances(scores, covariance_SS, patients, unbiased)
    between, common = spread.between / trainings, spread.common
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = between + common
        inverse = _inverse_df(between / variance, trainings, patients)
        mean, error = scores.mean(axis=-1), np.sqrt(variance)
        # Without any spread the interval is a point, and p is 1 for a mean of zero, else 0.
        half = np.where(variance == 0, 0.0, stdtrit(1 / inverse, (1 + level) / 2) * error)
        p = np.where(variance == 0, mean == 0, 2 * stdtr(1 / inverse, -np.abs(mean) / error))
    return Student(mean - half, mean + half, p)


def variances(
    scores_S: ArrayLike, covariance_SS: ArrayLike, patients: float, unbiased: bool = False
) -> Spread:
    """The parts of the variance of a mean of S scores, as above; leading axes are separate cases.

    ``unbiased``: the covariance is, and needs no correction for few patients.
    """
    scores, covariance = np.asarray(scores_S, float), np.asarray(covariance_SS, float)
    trainings = scores.shape[-1]
    diagonal = np.trace(covariance, axis1=-2, axis2=-1)
    between, common = np.zeros(scores.shape[:-1]), diagonal
    if trainings > 1:
        between = scores.var(axis=-1, ddof=1)
        pairs = trainings * (trainings - 1)
        # The mean of all pairs' covariances; one that is negative by chance counts as 0.
        common = np.maximum(covariance.sum(axis=(-2, -1)) - diagonal, 0) / pairs
    with np.errstate(divide="ignore", invalid="ignore"):
        common = common if unbiased else common * np.float64(patients) / (patients - 1)
    return Spread(between, common)


def _inverse_df(share_between: Any, trainings: float, patients: float) -> Any:
    return share_between / max(trainings - 1, 1) + (1 - share_between) / (patients - 1)


def half_width(
    spread: Spread, trainings: int, patients: float, more_patients: float = 1.0, level: float = 0.95
) -> float:
    """Half of the interval that so many trainings would give, and so many times the patients.

    Both parts of the variance are taken to stay what they are; *common* falls as 1 / patients.
    """
    between, common = spread.between / trainings, spread.common / more_patients
    variance = between + common
    if variance == 0:
        return 0.0
    inverse = _inverse_df(between / variance, trainings, patients * more_patients)
    return float(stdtrit(1 / inverse, (1 + level) / 2) * np.sqrt(variance))


def over_trainings_and_samples(
    trainings: Sequence[Resampled],
    name: str,
    patients: float,
    level: float = 0.95,
    unbiased: bool = False,
) -> Student:
    """Interval of the mean of a score over trainings that were resampled alike.

    ``patients`` is their number; resamples in which the score is undefined are left out.
    ``unbiased``: resamples vary as samples do.
    """
    covariance_SS = _covariance(trainings, name)
    if covariance_SS is None or patients < 2:
        return Student(np.nan, np.nan, np.nan)
    scores_S = [training.value[name] for training in trainings]
    interval = student(scores_S, covariance_SS, patients, level, unbiased)
    return Student(*map(float, interval))


def spread_over(
    trainings: Sequence[Resampled], name: str, patients: float, unbiased: bool = False
) -> Spread | None:
    """The parts of the variance behind :func:`over_trainings_and_samples`; None where undefined."""
    covariance_SS = _covariance(trainings, name)
    if covariance_SS is None or patients < 2:
        return None
    scores_S = [training.value[name] for training in trainings]
    return Spread(*map(float, variances(scores_S, covariance_SS, patients, unbiased)))


def _covariance(trainings: Sequence[Resampled], name: str) -> Floats | None:
    """Of the trainings' scores over the resamples in which all are defined."""
    replicates_SR = np.stack([training.replicates[name] for training in trainings])
    defined = np.asarray(np.isfinite(replicates_SR).all(axis=0))
    return None if defined.sum() < 2 else np.atleast_2d(np.cov(replicates_SR[:, defined]))


def ends_over(
    trainings: Sequence[Resampled], name: str, supports: Supports, size: int, level: float = 0.95
) -> tuple[float, float]:
    """Ends of the interval of the mean of a score behind which ``size`` samples stand.

    Where a class of it is rare, that of the mean score over samples
    (:mod:`cxrflow.metrics.rare_classes`) and Student's over trainings are added as squares (Zou and
    Donner 2008).
    """
    if not supports.rare(name):
        plain = over_trainings_and_samples(trainings, name, min(supports.count, size), level)
        return plain.low, plain.high
    names = trainings[0].value
    values = {n: float(np.mean([t.value.get(n, np.nan) for t in trainings])) for n in names}
    areas = [name, *supports.weights(name)]
    scores = {n: np.mean([t.replicates[n] for t in trainings], axis=0) for n in areas}
    low, high = supports.interval(name, values, scores, size, level)
    half = 0.0
    if len(trainings) > 1:
        ends = over_trainings([training.value[name] for training in trainings], level)
        half = (ends.high - ends.low) / 2
    value = values[name]
    return float(value - np.hypot(value - low, half)), float(value + np.hypot(high - value, half))


def equivalence(
    trainings: Sequence[Resampled],
    name: str,
    patients: float,
    margin: float,
    unbiased: bool = False,
) -> float:
    """Return p of two one-sided tests that the mean of a score lies within ± ``margin``.

    The greater p of "it is above -margin" and "it is below margin" (Schuirmann 1987, J
    Pharmacokinet Biopharm 15:657); below 5 % where the 90 % interval lies inside. NaN where
    :func:`over_trainings_and_samples` is undefined.
    """
    sides = []
    for sign in (1, -1):
        shifted = [
            Resampled(
                {name: margin + sign * training.value[name]},
                {name: margin + sign * training.replicates[name]},
            )
            for training in trainings
        ]
        is_inside = np.mean([training.value[name] for training in shifted]) > 0
        p = over_trainings_and_samples(shifted, name, patients, unbiased=unbiased).p / 2
        sides.append(p if is_inside else 1 - p)
    return float(np.max(sides))


def over_trainings(scores_S: ArrayLike, level: float = 0.95) -> Student:
    """The same without samples: Student's interval of two or more scores.

    >>> from cxrflow.metrics import over_trainings
    >>> interval = over_trainings([0.81, 0.79, 0.83])  # AUROC of three trainings
    >>> round(float(interval.low), 3), round(float(interval.high), 3)
    (0.76, 0.86)
    """
    scores = np.asarray(scores_S, float)
    return student(scores, np.zeros((len(scores), len(scores))), 2, level)
