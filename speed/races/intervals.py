"""Bootstrap intervals of AUROC and best F1, of each class and their means, at published sizes.

Ours is what a benchmark does with its predictions: sort, resample patients 2,000 times, and take
the intervals, of rare classes too. The peers score a few of the same resamples one by one; their
times are of that share of the work, divided by it. The package ``confidenceinterval`` is raced on
one class where it is installed (``pip install --no-deps confidenceinterval statsmodels patsy``).
"""

import importlib.util

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import precision_recall_curve, roc_auc_score

from cxrflow.benchmarks.classification.scores import class_metrics
from cxrflow.benchmarks.classification.settings import LabelSettings
from cxrflow.benchmarks.result import estimate
from cxrflow.benchmarks.settings import IntervalSettings
from cxrflow.metrics.intervals import Floats, resamples
from speed.race import Race
from speed.subprocesses import watched

SETTINGS = LabelSettings(metrics=["auroc", "f1"])  # those of the two data sets' tasks
INTERVALS = IntervalSettings(replicates=2000)
DATA_SETS = {"nih": (25_596, 14, 86, 6_112), "padchest": (39_053, 193, 2, 20_000)}


def same(ours: dict[str, Floats], peer: dict[str, Floats]) -> None:
    """The metrics [R, C] of the resamples that a peer scored."""
    for name, values in peer.items():
        np.testing.assert_allclose(ours[name][: len(values)], values, rtol=0, atol=1e-9)


def race(
    name: str,
    images: int,
    classes: int,
    fewest: int,
    most: int,
    intervals: IntervalSettings = INTERVALS,
) -> Race:
    """``classes`` of ``fewest`` to ``most`` positives, evenly on the log scale."""
    rng = np.random.default_rng(0)
    patients_N = np.repeat(np.arange(images), rng.integers(1, 5, images))[:images]
    labels_NC = np.zeros((images, classes))
    for column, positives in enumerate(np.geomspace(fewest, most, classes).round().astype(int)):
        labels_NC[rng.choice(images, positives, replace=False), column] = 1
    scores_NC = rng.normal(size=labels_NC.shape) + labels_NC
    names = [str(number) for number in range(classes)]
    scored = max(1, 50 // classes)  # resamples of a peer
    counts = next(resamples(patients_N, scored, intervals.seed))

    def ours() -> dict[str, Floats]:
        statistic = class_metrics(labels_NC, scores_NC, names, SETTINGS)
        estimates = estimate(statistic, patients_N, intervals)
        assert len(estimates) == 2 * (classes + 1) + 1
        assert np.isfinite([estimates["auroc"].low, estimates["auroc"].high]).all()
        values = statistic(counts)
        return {
            kind: np.stack([values[f"{kind}/{name}"] for name in names], axis=1)
            for kind in SETTINGS.metrics
        }

    def scikit_learn() -> dict[str, Floats]:
        areas, best = np.empty((2, scored, classes))
        for row, weight in enumerate(counts):
            for column in range(classes):
                pair = (labels_NC[:, column], scores_NC[:, column])
                areas[row, column] = best[row, column] = np.nan
                if weight[pair[0] == 1].any():
                    areas[row, column] = roc_auc_score(*pair, sample_weight=weight)
                    precision, recall, _ = precision_recall_curve(*pair, sample_weight=weight)
                    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
                    best[row, column] = f1.max()
        return {"auroc": areas, "f1": best}

    def ranks() -> dict[str, Floats]:
        areas = np.empty((scored, classes))
        for row, weight in enumerate(counts):
            drawn = np.repeat(np.arange(images), weight.astype(int))
            for column in range(classes):
                is_positive = labels_NC[drawn, column] == 1
                rank = rankdata(scores_NC[drawn, column])[is_positive]
                m, n = len(rank), len(drawn) - len(rank)
                areas[row, column] = (rank.mean() - (m + 1) / 2) / n if m else np.nan
        return {"auroc": areas}

    peers = {"scikit-learn": scikit_learn, "ranks by SciPy, AUROC alone": ranks}
    return Race(
        name=f"intervals_{name}",
        what=f"{intervals.replicates} resamples of {images} images' patients, {classes} classes "
        f"with {fewest} to {most} positives: AUROC and best F1 with their intervals",
        ours=lambda: watched(ours),
        peers={peer: lambda work=work: watched(work) for peer, work in peers.items()},
        check=same,
        gates={"scikit-learn": 100},
        shares=dict.fromkeys(peers, scored / intervals.replicates),
        amount=intervals.replicates * classes,
        unit="resample of a class",
        notes=[f"peers score {scored} resamples; their seconds are extrapolated"],
        most_rounds=3,
    )


def one_class(images: int = 725, positives: int = 200) -> Race:
    """The AUROC of one class, not rare, resampled by image, against a package of intervals."""
    import confidenceinterval

    rng = np.random.default_rng(0)
    label_N = (np.arange(images) < positives).astype(float)
    score_N = rng.normal(size=images) + label_N
    settings, own_patients = LabelSettings(metrics=["auroc"]), np.arange(images)

    def ours() -> Floats:
        statistic = class_metrics(label_N[:, None], score_N[:, None], ["0"], settings)
        found = estimate(statistic, own_patients, INTERVALS)["auroc"]
        return np.array([found.value, found.low, found.high])

    def peer() -> Floats:
        value, ends = confidenceinterval.roc_auc_score(
            label_N, score_N, method="bootstrap_percentile", n_resamples=INTERVALS.replicates
        )
        return np.array([value, *ends])

    def close(found: Floats, wanted: Floats) -> None:
        """The same value; ends of other resamples, a tenth of the interval apart at most."""
        np.testing.assert_allclose(found[0], wanted[0], atol=1e-9)
        np.testing.assert_allclose(found[1:], wanted[1:], atol=(wanted[2] - wanted[1]) / 10)

    return Race(
        name="intervals_one_class",
        what=f"AUROC of {images} images, {positives} positives, {INTERVALS.replicates} resamples",
        ours=ours,
        peers={"confidenceinterval": peer},
        check=close,
        gates={"confidenceinterval": 30},
        amount=INTERVALS.replicates,
        unit="resample",
    )


def races() -> list[Race]:
    """NIH ChestX-ray14's and PadChest's test images, and one class."""
    published = [race(name, *sizes) for name, sizes in DATA_SETS.items()]
    if importlib.util.find_spec("confidenceinterval") is None:
        print("intervals: confidenceinterval is not installed, no race against it")
        return published
    return [*published, one_class()]
