"""Intervals of scores of classes with few positives, and of means over such classes.

A resample of m positive patients repeats some and loses others, so that a bootstrap interval of an
AUROC is too short for a hundred of them, and far too short for ten (docs/inference.md). The area's
sampling variance is instead the greater of two: that of the resamples, times m / (m - 1), and that
of Hanley and McNeil (1982, Radiology 143:29; their Q1 and Q2). The interval is normal on the logit
scale, and nowhere wider than what holds for any distribution of scores: an area's variance is at
most A (1 - A) / min(m, n) (Birnbaum and Klose 1957, Ann Math Stat 28:933), which gives Wilson's
score interval. m and n are effective numbers of samples (Kish 1965): a patient's are taken as
wholly alike.

A mean over classes combines the classes' own intervals (MOVER: Zou and Donner 2008, Stat Med
27:1693) with the correlations of their resamples. Its set of classes is fixed: a class that a
resample leaves without positives keeps the value that it has on all samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from cxrflow.metrics.intervals import Floats, Statistic, percentile_interval, replicated

FEW = 100  # patients of a side: below, an area has the interval above, from there on a bootstrap's
LEAST = 20  # patients: below, what is no area has no interval


FEW_WORDS = (
    f"bootstrap, or by ranks where an AUROC has fewer than {FEW} patients of a side; – below 2, "
    f"and below {LEAST} of other metrics"
)


def found_text(counts: Mapping[str, int]) -> str:
    """What there is to be found behind a value, in words: boxes, candidates, samples by class."""
    words = {name: name.removeprefix("least_").replace("_", " ") for name in counts}
    return ", ".join(
        f"{count:,} {'or more ' * name.startswith('least_')}{words[name]}"
        for name, count in counts.items()
    )


def counts_text(counts: Mapping[str, Any]) -> str:
    """Positives and negatives of a metric of metrics.json in words; empty where it has none."""
    if "least_positives" in counts:
        return f"classes of {counts['least_positives']:,} positives or more"
    if "positives" not in counts:
        return ""
    sides = [
        f"{counts[side]:,}"
        + (f" of {counts[people]:,} patients" if counts[people] != counts[side] else "")
        for side, people in (("positives", "positive_patients"), ("negatives", "negative_patients"))
    ]
    return " and ".join(sides)


class Behind(NamedTuple):
    """What a metric is of.

    Attributes:
        classes: whose labels count.
        is_area: it is the AUROC of one class, or the sum below of such areas.
        weights: of the metrics of single classes that it is the sum of; empty of one class.
    """

    classes: tuple[str, ...]
    is_area: bool = False
    weights: Mapping[str, float] = {}


class Labels(NamedTuple):
    """Labels [N] of each class (1, 0; NaN: does not count), and what a metric is of, by name."""

    classes: Mapping[str, Floats]
    behind: Callable[[str], Behind | None]


def areas_of(labels: Mapping[str, Floats], area: str = "auroc") -> Labels:
    """Labels [N] behind the AUROCs ``<area>`` and ``<area>/<part>``, by what follows ``area``."""

    def behind(metric: str) -> Behind | None:
        rest = metric.removeprefix(area)
        return Behind((rest,), True) if metric.startswith(area) and rest in labels else None

    return Labels(labels, behind)


@dataclass(frozen=True)
class Sides:
    """How many samples and patients have the label 1, and how many 0."""

    positives: int
    negatives: int
    positive_patients: int
    negative_patients: int
    effective: tuple[float, float]  # numbers of samples, of either side

    @classmethod
    def of(cls, labels_N: Floats, clusters_N: NDArray[np.int64]) -> "Sides":
        """Count labels; what is neither 1 nor 0 does not count."""
        sizes = [np.bincount(clusters_N[labels_N == side]) for side in (1, 0)]
        samples = [int(size.sum()) for size in sizes]
        patients = [int((size > 0).sum()) for size in sizes]
        kish = [float(size.sum() ** 2 / max((size**2).sum(), 1)) for size in sizes]
        return cls(samples[0], samples[1], patients[0], patients[1], (kish[0], kish[1]))

    @property
    def patients(self) -> int:
        """Those of the rarer side."""
        return min(self.positive_patients, self.negative_patients)

    def as_json(self) -> dict[str, int]:
        """For metrics.json."""
        return {
            "positives": self.positives,
            "negatives": self.negatives,
            "positive_patients": self.positive_patients,
            "negative_patients": self.negative_patients,
        }


def area_interval(
    area: float, variance: float, effective: Sequence[float], level: float = 0.95
) -> tuple[float, float]:
    """Ends of the interval of one AUROC, as above.

    ``variance``: of resamples, unbiased. ``effective``: numbers of positives and negatives.
    """
    m, n = effective
    z = float(ndtri((1 + level) / 2))
    inner = float(np.clip(area, 0.5 / (m * n), 1 - 0.5 / (m * n)))
    above, below = inner / (2 - inner), 2 * inner**2 / (1 + inner)
    spread = inner * (1 - inner) + (m - 1) * (above - inner**2) + (n - 1) * (below - inner**2)
    error = np.sqrt(max(variance, spread / (m * n))) / (inner * (1 - inner))
    low, high = expit(logit(inner) + np.array([-z, z]) * error)
    fewer = min(m, n)
    middle = area + z**2 / (2 * fewer)
    half = z * np.sqrt(area * (1 - area) / fewer + z**2 / (4 * fewer**2))
    widest = (middle + np.array([-half, half])) / (1 + z**2 / fewer)
    return float(min(max(low, widest[0]), area)), float(max(min(high, widest[1]), area))


class Support(NamedTuple):
    """The labels behind a metric."""

    behind: Behind
    sides: Sequence[Sides]  # of its classes

    @property
    def is_rare(self) -> bool:
        """True if a class has fewer than ``FEW`` patients of a side."""
        return min(side.patients for side in self.sides) < FEW

    @property
    def patients(self) -> float:
        """Of the rarer side; of several classes an effective number.

        That is Satterthwaite's, where a class's variance goes with 1 / patients.
        """
        if len(self.sides) == 1:
            return self.sides[0].patients
        count_C = np.array([max(side.patients, 1) for side in self.sides], np.float64)
        share_C, degrees_C = 1 / count_C, np.maximum(count_C - 1, 0.5)
        return float(1 + share_C.sum() ** 2 / (share_C**2 / degrees_C).sum())

    @property
    def has_interval(self) -> bool:
        """An area has one from two patients of either side on, another metric from ``LEAST`` on."""
        return self.patients >= (2 if self.behind.is_area else LEAST)

    def as_json(self) -> dict[str, int]:
        """Counts of a class; of several the least positives and negatives that one has."""
        if len(self.sides) == 1:
            return self.sides[0].as_json()
        return {
            "least_positives": min(side.positives for side in self.sides),
            "least_negatives": min(side.negatives for side in self.sides),
        }


class Supports:
    """What stands behind each metric of a statistic, of samples in clusters [N]."""

    def __init__(self, labels: Labels | None, clusters_N: NDArray[np.int64]) -> None:
        self.labels, self.clusters_N = labels, clusters_N
        self.count = len(np.unique(clusters_N))
        self._sides: dict[str, Sides] = {}

    def of(self, name: str) -> Support | None:
        """The support of a metric; None of what is of no class."""
        behind = None if self.labels is None else self.labels.behind(name)
        if self.labels is None or behind is None or not behind.classes:
            return None
        for label in behind.classes:
            if label not in self._sides:
                self._sides[label] = Sides.of(self.labels.classes[label], self.clusters_N)
        return Support(behind, [self._sides[label] for label in behind.classes])

    def counts(self, name: str) -> dict[str, int]:
        """Numbers of positives and negatives behind a metric, for metrics.json."""
        support = self.of(name)
        return {} if support is None else support.as_json()

    def weights(self, name: str) -> Mapping[str, float]:
        """Weights of the metrics of single classes that a metric is the sum of."""
        support = self.of(name)
        return {} if support is None else support.behind.weights

    def rare(self, name: str) -> Support | None:
        """The support of a metric one of whose classes is rare."""
        support = self.of(name)
        return support if support is not None and support.is_rare else None

    def patients(self, name: str) -> float | None:
        """Their effective number behind a metric one of whose classes is rare; else None."""
        support = self.rare(name)
        return None if support is None else support.patients

    def replicated(
        self, statistic: Statistic, replicates: int, seed: int
    ) -> tuple[dict[str, float], dict[str, Floats]]:
        """Every metric on all samples, and on each resample [R] with its variance made unbiased.

        A mean over classes of which one is rare is that of its classes' values, each with its own
        correction, as all of them have one in every resample.
        """
        values, plain = replicated(statistic, self.clusters_N, replicates, seed)
        unbiased = {}
        for name, value in values.items():
            support, scores_R = self.rare(name), plain[name]
            if support is not None and len(support.sides) == 1 and support.patients > 1:
                stretch = np.sqrt(support.patients / (support.patients - 1))
                scores_R = value + stretch * (scores_R - value)
            unbiased[name] = scores_R
        for name, value in values.items():
            support = self.rare(name)
            if support is not None and support.behind.weights:
                shifts = [
                    weight * np.nan_to_num(unbiased[area] - values[area])
                    for area, weight in support.behind.weights.items()
                ]
                unbiased[name] = value + np.sum(shifts, axis=0)
        return values, unbiased

    def interval(
        self,
        name: str,
        values: Mapping[str, float],
        replicates: Mapping[str, Floats],
        size: int,
        level: float = 0.95,
    ) -> tuple[float, float]:
        """Ends of the interval of a metric over samples; NaN where there is none.

        Args:
            values: of all metrics, on all samples.
            replicates: theirs [R] by :meth:`replicated`.
            size: samples behind the metric.
        """
        support, count = self.rare(name), min(self.count, size)
        if support is None:
            return percentile_interval(replicates[name], level, count)
        if not support.has_interval or not np.isfinite(values[name]):
            return np.nan, np.nan
        if not support.behind.is_area:
            return percentile_interval(replicates[name], level, min(count, int(support.patients)))
        weights = support.behind.weights or {name: 1.0}
        ends = []
        for area, side in zip(weights, support.sides, strict=True):
            if side.patients < FEW:
                variance = float(np.nanvar(replicates[area]))
                ends.append(area_interval(values[area], variance, side.effective, level))
            else:
                ends.append(percentile_interval(replicates[area], level, self.count))
        if not support.behind.weights:
            return ends[0]
        value_C = np.array([values[area] for area in weights])
        weight_C = np.array(list(weights.values()))
        low_C, high_C = (np.abs(end - value_C) * weight_C for end in np.transpose(ends))
        # A negative weight takes the other end.
        low_C, high_C = (
            np.where(weight_C > 0, *gaps) for gaps in ((low_C, high_C), (high_C, low_C))
        )
        shift_CR = np.stack([np.nan_to_num(replicates[area] - values[area]) for area in weights])
        norm_C = np.sqrt((shift_CR**2).sum(axis=1, keepdims=True))
        unit_CR = shift_CR / np.where(norm_C > 0, norm_C, 1)
        # What never varies has no correlation but with itself.
        below, above = (
            np.sqrt(((gap_C @ unit_CR) ** 2).sum() + (gap_C[norm_C[:, 0] == 0] ** 2).sum())
            for gap_C in (low_C, high_C)
        )
        return float(values[name] - below), float(values[name] + above)
