"""Coverage of the intervals of classes with few positives, by simulation: docs/inference.md.

    python -m simulations.rare_classes --samples 300

Of about 725 images of patients with one to four; half of the later images of a positive patient are
negative. Scores are normal, those of a patient correlate by 0.7, those of two classes by 0.5, and
those of two models for one class by 0.5. Prints the share of 95 % intervals that hold the true
value, with their mean width: of a class by its number of positive patients and true AUROC; of the
mean of eight classes of which some are rare and the others have 60; of the difference of two models
with the same AUROC, of a class and of such a mean.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from cxrflow.benchmarks.classification.scores import class_metrics
from cxrflow.benchmarks.classification.settings import LabelSettings
from cxrflow.benchmarks.result import CountedStatistic
from cxrflow.metrics.crossed import DIFFERENCE, over_trainings_and_samples, resampled
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.rare_classes import Supports

IMAGES, ALIKE, REPLICATES, SETTINGS = 725, 0.7, 200, LabelSettings(metrics=["auroc"])
AREAS, OTHERS = (0.6, 0.8, 0.95), 60
PATIENTS = tuple((positives,) for positives in (2, 3, 5, 10, 20, 50, 99, 120))
RARE = ((2,), (2, 3, 4, 5), (5,) * 4, (2,) * 8, (5,) * 8)  # of eight classes
MEANS = tuple(rare + (OTHERS,) * (8 - len(rare)) for rare in RARE)


def clusters(rng: np.random.Generator) -> NDArray[np.int64]:
    """Patients [N] of the images."""
    sizes = rng.integers(1, 5, size=IMAGES)
    return np.repeat(np.arange(IMAGES), sizes)[:IMAGES]


def labels(rng: np.random.Generator, patients_N: NDArray[np.int64], positives: int) -> Floats:
    """Labels [N] of a class with so many positive patients."""
    patients = rng.choice(patients_N.max() + 1, positives, replace=False)
    is_first = np.diff(patients_N, prepend=-1) > 0
    return (np.isin(patients_N, patients) & (is_first | (rng.random(IMAGES) < 0.5))).astype(float)


def noise(rng: np.random.Generator, patients_N: NDArray[np.int64]) -> Floats:
    """Standard normal scores [N] that correlate within a patient."""
    of_patients = rng.normal(size=patients_N.max() + 1)[patients_N]
    return np.sqrt(ALIKE) * of_patients + np.sqrt(1 - ALIKE) * rng.normal(size=IMAGES)


def models(
    rng: np.random.Generator, positives: Sequence[int], area: float, count: int
) -> tuple[NDArray[np.int64], list[CountedStatistic]]:
    """Patients [N], and the AUROC of so many models: of one class, or the mean of several."""
    patients_N = clusters(rng)
    labels_NC = np.stack([labels(rng, patients_N, number) for number in positives], axis=1)
    names = [str(number) for number in range(len(positives))] if len(positives) > 1 else []
    shift, common_N = np.sqrt(2) * float(ndtri(area)), noise(rng, patients_N)
    classes_NC = np.stack([noise(rng, patients_N) for _ in positives], axis=1)
    statistics = []
    for _ in range(count):
        shared_NC = common_N[:, None] + classes_NC + noise(rng, patients_N)[:, None]
        rest_NC = np.stack([noise(rng, patients_N) for _ in positives], axis=1)
        scores_NC = (shared_NC + rest_NC) / 2 + shift * labels_NC
        statistics.append(class_metrics(labels_NC, scores_NC, names, SETTINGS))
    return patients_N, statistics


def of_an_area(positives: Sequence[int], area: float, samples: int) -> tuple[float, float]:
    """Coverage and mean width of the interval of an AUROC."""
    rng = np.random.default_rng([*positives, int(100 * area)])
    ends = []
    for seed in range(samples):
        patients_N, (statistic,) = models(rng, positives, area, 1)
        supports = Supports(statistic.labels, patients_N)
        values, replicates = supports.replicated(statistic, REPLICATES, seed)
        ends.append(supports.interval("auroc", values, replicates, IMAGES))
    return covered(ends, area)


def of_a_difference(positives: Sequence[int], area: float, samples: int) -> tuple[float, float]:
    """Coverage and mean width of the interval of the difference of two models."""
    rng = np.random.default_rng([*positives, int(100 * area)])
    ends = []
    for seed in range(samples):
        patients_N, statistics = models(rng, positives, area, 2)
        supports = Supports(statistics[0].labels, patients_N)
        first, second = (
            resampled(statistic, patients_N, REPLICATES, seed, supports) for statistic in statistics
        )
        gap = first.minus(second, "auroc", "auroc")
        few = supports.patients("auroc")
        count = supports.count if few is None else few
        limits = over_trainings_and_samples([gap], DIFFERENCE, count, unbiased=few is not None)
        ends.append((limits.low, limits.high))
    return covered(ends, 0)


def covered(ends: list[tuple[float, float]], truth: float) -> tuple[float, float]:
    """Share of the intervals that hold the truth, and their mean width."""
    low, high = np.transpose(ends)
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def main() -> None:
    """Print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=int, default=300, help="draws of images of each cell")
    samples = arguments.parse_args().samples
    tables = {
        "a class": (of_an_area, PATIENTS),
        "a mean of 8 classes": (of_an_area, MEANS),
        "a difference of a class": (of_a_difference, PATIENTS[:5]),
        "a difference of a mean of 8 classes": (of_a_difference, MEANS),
    }
    for title, (simulation, rows) in tables.items():
        print(f"{title + ', by positive patients':58}", *(f"{area:14}" for area in AREAS))
        for row in rows:
            cells = [simulation(row, area, samples) for area in AREAS]
            words = (f"{share:8.3f} ({width:.2f})" for share, width in cells)
            print(f"{' '.join(map(str, row)):58}", *words, flush=True)


if __name__ == "__main__":
    main()
