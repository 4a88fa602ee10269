"""Coverage of the intervals of classes with few positives, by simulation: docs/inference.md.

    python -m simulations.rare_classes --samples 300

Of about 725 images of patients with one to four; half of the later images of a positive patient are
negative. Scores are normal, those of a patient correlate by 0.7. Prints the share of 95 % intervals
that hold the true value, with their mean width: of one class by its number of positive patients and
true AUROC; of the mean of 14 classes of which ``few`` have two to five positive patients and the
others 60; of the difference of two models with the same AUROC.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from cxrflow.metrics.classification import auroc
from cxrflow.metrics.crossed import DIFFERENCE, over_trainings_and_samples, resampled
from cxrflow.metrics.intervals import Floats, Statistic
from cxrflow.metrics.rare_classes import Behind, Labels, Supports

IMAGES, ALIKE, REPLICATES = 725, 0.7, 200
PATIENTS, AREAS = (2, 3, 5, 10, 20, 50, 99, 120), (0.6, 0.8, 0.95)


def clusters(rng: np.random.Generator) -> NDArray[np.int64]:
    """Patients [N] of the images."""
    sizes = rng.integers(1, 5, size=IMAGES)
    return np.repeat(np.arange(IMAGES), sizes)[:IMAGES]


def labels(
    rng: np.random.Generator, patients_N: NDArray[np.int64], positives: int
) -> NDArray[np.float64]:
    """Labels [N] of a class with so many positive patients."""
    patients = rng.choice(patients_N.max() + 1, positives, replace=False)
    is_first = np.diff(patients_N, prepend=-1) > 0
    return (np.isin(patients_N, patients) & (is_first | (rng.random(IMAGES) < 0.5))).astype(float)


def noise(rng: np.random.Generator, patients_N: NDArray[np.int64]) -> Floats:
    """Standard normal scores [N] that correlate within a patient."""
    of_patients = rng.normal(size=patients_N.max() + 1)[patients_N]
    return np.sqrt(ALIKE) * of_patients + np.sqrt(1 - ALIKE) * rng.normal(size=IMAGES)


def scores_of(labels_N: Floats, noise_N: Floats, area: float) -> Floats:
    """Scores [N] with this true AUROC."""
    return noise_N + np.sqrt(2) * float(ndtri(area)) * labels_N


def areas(labels_CN: list[Floats], scores_CN: list[Floats]) -> tuple[Statistic, Labels]:
    """AUROCs of classes and their mean ``auroc``, and what is behind them."""
    names = [f"auroc/{number}" for number in range(len(labels_CN))]
    weights = dict.fromkeys(names, 1 / len(names))

    def statistic(counts: Floats) -> dict[str, Floats]:
        values = [auroc(*pair, counts) for pair in zip(labels_CN, scores_CN, strict=True)]
        return {**dict(zip(names, values, strict=True)), "auroc": np.mean(values, axis=0)}

    def behind(metric: str) -> Behind:
        if metric in weights:
            return Behind((metric,), True)
        return Behind(tuple(names), True, weights)

    return statistic, Labels(dict(zip(names, labels_CN, strict=True)), behind)


def of_a_class(positives: int, area: float, samples: int) -> tuple[float, float]:
    """Coverage and mean width of the interval of one class."""
    rng = np.random.default_rng([positives, int(100 * area)])
    ends = []
    for seed in range(samples):
        patients_N = clusters(rng)
        labels_N = labels(rng, patients_N, positives)
        scores_N = scores_of(labels_N, noise(rng, patients_N), area)
        ends.append(interval([labels_N], [scores_N], patients_N, seed))
    return covered(ends, area)


def of_a_mean(few: int, area: float, samples: int) -> tuple[float, float]:
    """Coverage and mean width of the interval of a mean; the classes' scores correlate by half."""
    rng = np.random.default_rng([few, int(100 * area)])
    ends = []
    for seed in range(samples):
        patients_N = clusters(rng)
        common_N = noise(rng, patients_N)
        labels_CN = [
            labels(rng, patients_N, 2 + number % 4 if number < few else 60) for number in range(14)
        ]
        scores_CN = [
            scores_of(y_N, np.sqrt(0.5) * (common_N + noise(rng, patients_N)), area)
            for y_N in labels_CN
        ]
        ends.append(interval(labels_CN, scores_CN, patients_N, seed))
    return covered(ends, area)


def of_a_difference(positives: int, area: float, samples: int) -> tuple[float, float]:
    """Coverage and mean width of the interval of a difference, of scores that correlate by half."""
    rng = np.random.default_rng([positives, int(100 * area)])
    ends = []
    for seed in range(samples):
        patients_N = clusters(rng)
        labels_N = labels(rng, patients_N, positives)
        common_N = noise(rng, patients_N)
        runs = []
        for _ in range(2):
            noise_N = np.sqrt(0.5) * (common_N + noise(rng, patients_N))
            statistic, behind = areas([labels_N], [scores_of(labels_N, noise_N, area)])
            supports = Supports(behind, patients_N)
            runs.append(resampled(statistic, patients_N, REPLICATES, seed, supports))
        gap = runs[0].minus(runs[1], "auroc/0", "auroc/0")
        few = supports.patients("auroc/0")
        patients = supports.count if few is None else few
        limits = over_trainings_and_samples([gap], DIFFERENCE, patients, unbiased=few is not None)
        ends.append((limits.low, limits.high))
    return covered(ends, 0)


def interval(
    labels_CN: list[Floats], scores_CN: list[Floats], patients_N: NDArray[np.int64], seed: int
) -> tuple[float, float]:
    """Interval of the mean AUROC over classes of one draw of images."""
    statistic, behind = areas(labels_CN, scores_CN)
    supports = Supports(behind, patients_N)
    values, replicates = supports.replicated(statistic, REPLICATES, seed)
    return supports.interval("auroc", values, replicates, IMAGES)


def covered(ends: list[tuple[float, float]], truth: float) -> tuple[float, float]:
    """Share of the intervals that hold the truth, and their mean width."""
    low, high = np.transpose(ends)
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def main() -> None:
    """Print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=int, default=2000, help="draws of images of each cell")
    samples = arguments.parse_args().samples
    tables = {
        "a class, by positive patients": (of_a_class, PATIENTS),
        "a difference, by positive patients": (of_a_difference, (2, 3, 5, 10, 20)),
        "a mean of 14 classes, by rare ones": (of_a_mean, (1, 4, 14)),
    }
    for title, (simulation, rows) in tables.items():
        print(f"{title:36}", *(f"{area:14}" for area in AREAS))
        for row in rows:
            cells = [simulation(row, area, samples) for area in AREAS]
            print(f"{row:36}", *(f"{share:8.3f} ({width:.2f})" for share, width in cells))


if __name__ == "__main__":
    main()
