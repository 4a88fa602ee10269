"""Percentile bootstrap over samples or patients; correction for several tests.

A *statistic* is a function of resampling counts ``[R, N]`` (how often each of the N samples was
drawn) that returns one array ``[R]`` for every metric. Counts of one, ``[1, N]``, give the
estimate itself, so estimate and interval come from the same code. Patients, not images, are
independent: samples of one cluster are drawn together. These intervals are of one training; those
over several trainings as well are in :mod:`cxrflow.metrics.crossed`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Mapping[str, Floats]]

_BLOCK = 2**22  # numbers of resampling counts held at once: 32 MiB


@dataclass(frozen=True)
class Estimate:
    """A value, its interval and the number of samples behind it; NaN where undefined.

    >>> from cxrflow.metrics import Estimate
    >>> Estimate(value=0.8, low=0.7, high=0.9, n=100).as_json()
    {'value': 0.8, 'low': 0.7, 'high': 0.9, 'n': 100}
    """

    value: float
    low: float
    high: float
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)  # of positives, and so on

    @classmethod
    def counted(cls, value: float, n: int) -> "Estimate":
        """A number that was counted, not sampled: it has no interval."""
        return cls(float(value), float("nan"), float("nan"), n)

    def as_json(self) -> dict[str, Any]:
        """For metrics.json, where an undefined number is null, and an interval holds its value.

        Resampling may shift a statistic, such as F1 at the best threshold, and with it both ends.
        """
        low, high = np.minimum(self.low, self.value), np.maximum(self.high, self.value)
        number = {"value": self.value, "low": float(low), "high": float(high)}
        finite = {key: v if np.isfinite(v) else None for key, v in number.items()}
        return {**finite, "n": self.n, **self.counts}


def clusters_of(subjects: "Sequence[Any] | pd.Series", unit: str = "subject") -> NDArray[np.int64]:
    """Cluster numbers ``[N]``: equal for samples of one patient.

    With ``unit`` "sample" each sample is a cluster of its own; so is one without a patient id.

    >>> from cxrflow.metrics import clusters_of
    >>> clusters_of(["p1", "p1", "p2", None]).tolist()
    [0, 0, 1, 2]
    """
    import pandas as pd

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
        draws = rng.integers(0, groups, size=(count, groups))
        flat = (draws + groups * np.arange(count)[:, None]).ravel()
        table = np.bincount(flat, minlength=count * groups).reshape(count, groups)
        yield table[:, codes].astype(np.float64)


def percentile_interval(
    values: ArrayLike, level: float = 0.95, clusters: int | None = None
) -> tuple[float, float]:
    """The middle ``level`` of the values; undefined resamples (NaN) are left out.

    With the number of ``clusters`` that were resampled it is expanded (Hesterberg 2015, Am Stat
    69:371, section 4.2.1). The plain interval is too narrow for few clusters, like a mean's that
    takes n for n - 1 in the standard deviation and the normal's quantiles for Student's.
    """
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite) or clusters == 1:  # resamples of one cluster are all alike: no spread
        return float("nan"), float("nan")
    outside = (1 - level) / 2
    if clusters is not None and clusters > 1:
        stretch = np.sqrt(clusters / (clusters - 1))
        outside = float(ndtr(stretch * stdtrit(clusters - 1, outside)))
    low, high = np.quantile(finite, [outside, 1 - outside])
    return float(low), float(high)


def bootstrap(
    statistic: Statistic,
    clusters: ArrayLike,
    sizes: Mapping[str, int],
    replicates: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Estimate and expanded percentile interval of every metric of ``statistic``.

    ``sizes`` says how many samples stand behind each metric (its ``n``).

    >>> import numpy as np
    >>> from cxrflow.metrics import auroc, bootstrap, clusters_of
    >>> labels, scores = np.array([0, 0, 1, 1, 1, 0]), np.array([0.1, 0.6, 0.5, 0.8, 0.9, 0.2])
    >>> patients = clusters_of(["a", "a", "b", "c", "d", "e"])
    >>> estimates = bootstrap(
    ...     lambda counts: {"auroc": auroc(labels, scores, counts)}, patients, {"auroc": 6}
    ... )
    >>> round(estimates["auroc"].value, 3), estimates["auroc"].low < estimates["auroc"].value
    (0.889, True)
    """
    values, replicate_scores = replicated(statistic, clusters, replicates, seed)
    count = len(np.unique(np.asarray(clusters)))
    estimates = {}
    for name, value in values.items():
        ends = percentile_interval(replicate_scores[name], level, min(count, sizes[name]))
        estimates[name] = Estimate(value, *ends, sizes[name])
    return estimates


def replicated(
    statistic: Statistic, clusters: ArrayLike, replicates: int, seed: int
) -> tuple[dict[str, float], dict[str, Floats]]:
    """Every metric of ``statistic``: on all samples, and on each of R resamples of them [R]."""
    codes = np.asarray(clusters, dtype=np.int64)
    point = statistic(np.ones((1, len(codes))))
    blocks = [statistic(counts) for counts in resamples(codes, replicates, seed)]
    by_name = {name: np.concatenate([block[name] for block in blocks]) for name in point}
    return {name: float(value[0]) for name, value in point.items()}, by_name


def holm(p_values: ArrayLike) -> Floats:
    """p-values [N] corrected for N comparisons (Holm 1979, step-down); never above 1.

    The k-th smallest (k from 0) is multiplied by N - k; corrected values keep the order.

    >>> from cxrflow.metrics import holm
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def ratio(above: Floats, below: Floats) -> Floats:
    """Quotient; NaN where the denominator is not positive."""
    return np.asarray(above / np.where(below > 0, below, np.nan))


def weighted_mean(counts: Floats, values: ArrayLike, where: ArrayLike | None = None) -> Floats:
    """Mean ``[R]`` of values ``[N]`` under resampling counts; NaN values are left out."""
    numbers = np.asarray(values, dtype=np.float64)
    included = np.isfinite(numbers)
    if where is not None:
        included &= np.asarray(where, dtype=bool)
    total = counts[:, included].sum(axis=1)
    return ratio(counts[:, included] @ numbers[included], total)


def weighted_median(counts: Floats, values: ArrayLike) -> Floats:
    """Median ``[R]`` of values ``[N]``, each repeated ``counts`` times; NaN are left out."""
    numbers = np.asarray(values, dtype=np.float64)
    order = np.argsort(numbers)[: int(np.isfinite(numbers).sum())]
    cumulative = counts[:, order].cumsum(axis=1)
    if not len(order):
        return np.full(len(counts), np.nan)
    total = cumulative[:, -1]
    # The middle value, or the two about the middle, by rank from 0 on.
    middle = [
        numbers[order][np.minimum((cumulative <= place[:, None]).sum(axis=1), len(order) - 1)]
        for place in ((total - 1) // 2, total // 2)
    ]
    return np.where(total > 0, (middle[0] + middle[1]) / 2, np.nan)
