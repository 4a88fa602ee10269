"""Percentile bootstrap over samples or patients, paired differences.

A *statistic* is a function of resampling counts ``[R, N]`` (how often each of the N samples was
drawn) that returns one array ``[R]`` for every metric. Counts of one, ``[1, N]``, give the
estimate itself, so estimate and interval come from the same code. Patients, not images, are
independent: samples of one cluster are drawn together. The published tables give a spread over
training seeds only; the intervals here are over test samples and are shown beside it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Mapping[str, Floats]]

_BLOCK = 2**22  # numbers of resampling counts held at once: 32 MiB


@dataclass(frozen=True)
class Estimate:
    """A value, its interval and the number of samples behind it; NaN where undefined."""

    value: float
    low: float
    high: float
    n: int

    def as_json(self) -> dict[str, Any]:
        """For metrics.json, where an undefined number is null."""
        number = {"value": self.value, "low": self.low, "high": self.high}
        return {**{key: v if np.isfinite(v) else None for key, v in number.items()}, "n": self.n}


@dataclass(frozen=True)
class Difference:
    """First minus second on the same resamples; ``p`` is two-sided for "no difference"."""

    value: float
    low: float
    high: float
    p: float

    def as_json(self) -> dict[str, Any]:
        """For JSON, where an undefined number is null."""
        named = {"difference": self.value, "difference_low": self.low, "difference_high": self.high}
        return {k: v if np.isfinite(v) else None for k, v in {**named, "p": self.p}.items()}


def clusters_of(subjects: Sequence[Any] | pd.Series, unit: str = "subject") -> NDArray[np.int64]:
    """Cluster numbers ``[N]``: equal for samples of one patient.

    ``unit`` "sample" makes each its own; a missing patient id also does, since nothing is known.
    """
    series = pd.Series(list(subjects), dtype="object")
    if unit == "sample":
        return np.arange(len(series), dtype=np.int64)
    codes = pd.factorize(series)[0].astype(np.int64)
    unknown = codes < 0
    codes[unknown] = codes.max(initial=-1) + 1 + np.arange(unknown.sum())
    return codes


def resamples(clusters: ArrayLike, replicates: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of resampling counts ``[r, N]``; the draws do not depend on the block size."""
    codes = np.asarray(clusters, dtype=np.int64)
    groups = int(codes.max(initial=-1)) + 1
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // max(1, len(codes)))
    for start in range(0, replicates, rows):
        count = min(rows, replicates - start)
        drawn = rng.integers(0, groups, size=(count, groups))
        flat = (drawn + groups * np.arange(count)[:, None]).ravel()
        table = np.bincount(flat, minlength=count * groups).reshape(count, groups)
        yield table[:, codes].astype(np.float64)


def _replicates(
    statistic: Statistic, clusters: NDArray[np.int64], replicates: int, seed: int
) -> dict[str, Floats]:
    blocks = [statistic(counts) for counts in resamples(clusters, replicates, seed)]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def percentile_interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """The middle ``level`` of the values; undefined resamples (NaN) are left out."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap(
    statistic: Statistic,
    clusters: ArrayLike,
    sizes: Mapping[str, int],
    replicates: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Estimate and percentile interval of every metric of ``statistic``.

    ``sizes`` says how many samples stand behind each metric (its ``n``).
    """
    codes = np.asarray(clusters, dtype=np.int64)
    point = statistic(np.ones((1, len(codes))))
    drawn = _replicates(statistic, codes, replicates, seed)
    return {
        name: Estimate(float(point[name][0]), *percentile_interval(drawn[name], level), sizes[name])
        for name in point
    }


def paired_bootstrap(
    first: Statistic,
    second: Statistic,
    clusters: ArrayLike,
    replicates: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Difference]:
    """Difference of two statistics of the same samples, on the same resamples.

    ``p`` is twice the smaller share of resamples on one side of zero (with one added to count
    and total, so that it is never 0).
    """
    codes = np.asarray(clusters, dtype=np.int64)

    def difference(counts: Floats) -> dict[str, Floats]:
        a, b = first(counts), second(counts)
        return {name: np.asarray(a[name] - b[name]) for name in a if name in b}

    point = difference(np.ones((1, len(codes))))
    result = {}
    for name, values in _replicates(difference, codes, replicates, seed).items():
        known = values[np.isfinite(values)]
        tail = min((known <= 0).sum(), (known >= 0).sum())
        p = min(1.0, 2 * (tail + 1) / (len(known) + 1))
        result[name] = Difference(
            float(point[name][0]), *percentile_interval(values, level), float(p)
        )
    return result


def holm(p_values: ArrayLike) -> Floats:
    """p-values [N] corrected for N comparisons (Holm 1979, step-down); never above 1.

    The k-th smallest (k from 0) is multiplied by N - k, and none is below a smaller one's.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def weighted_mean(counts: Floats, values: ArrayLike, where: ArrayLike | None = None) -> Floats:
    """Mean ``[R]`` of values ``[N]`` under resampling counts; NaN values are left out."""
    numbers = np.asarray(values, dtype=np.float64)
    used = np.isfinite(numbers)
    if where is not None:
        used &= np.asarray(where, dtype=bool)
    total = counts[:, used].sum(axis=1)
    return np.asarray(counts[:, used] @ numbers[used] / np.where(total > 0, total, np.nan))
