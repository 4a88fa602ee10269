"""Transfer of a pre-trained encoder to a labelled set: splits, shares of the labels, metrics.

ConVIRT section 4.2, Appendix B, Table 1: classification from 1, 10 and 100 % of the training
labels, each as several runs, by a head on frozen features or by fine-tuning. Validation images
choose the epoch; the score is AUROC, of several classes its mean, or the accuracy of exclusive
classes, and the mean over the runs. Which images a share has is the same for every model. What the
paper calls a patient in MURA is a study, whose images' probabilities are averaged
(``sample: group``), in validation too.

Shapes: N images, S samples, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.csv_table import read_lines
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import (
    LABELLED,
    LabelledImages,
    labelled_splits,
    with_columns,
)
from cxrflow.benchmarks.classification.linear_probe import targets
from cxrflow.benchmarks.classification.probe_settings import TransferSettings
from cxrflow.benchmarks.classification.scores import (
    class_metrics,
    class_names,
    class_size,
    columns_of,
    metrics_by_share,
    threshold_words,
)
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.heads.shares import percent, share_rows
from cxrflow.benchmarks.inputs import open_pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions, patients
from cxrflow.images.geometry import Geometry
from cxrflow.metrics.crossed import Resampled, ends_over, resampled
from cxrflow.metrics.intervals import Estimate, Floats, clusters_of
from cxrflow.metrics.rare_classes import Supports

TRANSFER = (*LABELLED, "image_path", "split")
OTHER = "other_image"  # the control's metric


@dataclass(frozen=True)
class LabelledSplits:
    """Labelled images to learn from, to choose by and to be scored on."""

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages
    shares: Mapping[str, Sequence[NDArray[np.int64]]]  # rows of train of each run, by per cent
    dropped: list[dict[str, Any]]

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names, in the order of all labels and scores."""
        return self.train.classes


@dataclass(frozen=True)
class RunScores:
    """The test images' probabilities [N, C] in each run of each share, and how the runs went."""

    by_share: Mapping[str, Sequence[Floats]]
    courses: Mapping[str, Sequence[Mapping[str, Any]]]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def read_splits(inputs: ModelInputs, settings: TransferSettings) -> LabelledSplits:
    """Return the images of each split, in the geometry of the task or else of the model.

    Raises:
        InputError: a split has no image, or no class with both labels; a list names no image.
    """
    table = inputs.cohort.table
    if settings.geometry is not None:
        geometry = str(Geometry.parse(settings.geometry))
        inputs.pixels = open_pixels(inputs.options.pixels, geometry)
    pixels = inputs.pixels
    stored = table[["image_id"]].drop_duplicates()
    stored = stored[pixels.holds(stored["image_id"])]
    features = Features(pd.DataFrame(stored), {}, str(pixels.geometry), pixels.fingerprint)
    names = (settings.train_split, settings.validation_split, settings.split)
    (train, validation, test), dropped = labelled_splits(inputs, features, settings, names)
    shares, unmatched = shares_of(train, settings)
    return LabelledSplits(train, validation, test, shares, dropped + unmatched)


def shares_of(
    train: LabelledImages, settings: TransferSettings
) -> tuple[dict[str, list[NDArray[np.int64]]], list[dict[str, Any]]]:
    """The rows of each run, by share, and what lists name in vain."""
    shares, dropped = {}, []
    for fraction in settings.fractions:
        name = percent(fraction)
        if name in settings.lists:
            chosen, lost = listed_rows(train.table, settings.lists[name])
            shares[name] = [chosen] * len(settings.run_seeds)
            dropped += [{**lost.as_json(), "part": settings.train_split}] if lost.count else []
        else:
            shares[name] = [
                drawn_rows(train, fraction, seed, settings) for seed in settings.run_seeds
            ]
    return shares, dropped


def drawn_rows(
    train: LabelledImages, fraction: float, seed: int, settings: TransferSettings
) -> NDArray[np.int64]:
    """Rows of a share of the training images, a function of the seed and the list of images."""
    by_class = settings.exclusive or len(train.classes) == 1
    labels = targets(train, "softmax") if by_class and settings.stratified else train.labels_NC
    return share_rows(labels, fraction, seed)


def listed_rows(train: pd.DataFrame, path: Path) -> tuple[NDArray[np.int64], Drop]:
    """Rows of the training images that a file names by id or path, and what it names besides."""
    if not path.is_file():
        raise InputError(f"{path}: file not found; expected a list of training images")
    lines = read_lines(path)
    entries = list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))
    numbers = range(len(train))
    row_of = {
        **dict(zip(train["image_path"], numbers, strict=True)),
        **dict(zip(train["image_id"], numbers, strict=True)),
    }
    rows = sorted({row_of[name] for name in entries if name in row_of})
    if not rows:
        raise InputError(
            f"{path}: names none of the {len(train)} training images; expected the image_id or "
            "image_path of some, one a line"
        )
    lost = Drop.of(f"listed in {path.name}, no training image", set(entries) - set(row_of))
    return np.array(rows, dtype=np.int64), lost


def probabilities(logits_NC: Tensor, exclusive: bool) -> Floats:
    """[N, C]: of exclusive classes their sum is 1."""
    logits = logits_NC.double()
    scores_NC: Floats = (logits.softmax(1) if exclusive else logits.sigmoid()).cpu().numpy()
    return scores_NC


def scored(
    images: LabelledImages, scores_NC: Floats, settings: TransferSettings, monitor: str
) -> dict[str, float]:
    """The metrics of images by the scores of a head, ``monitor`` among them."""
    first = np.unique(images.groups_N, return_index=True)[1]
    with_monitor = settings.model_copy(update={"metrics": [monitor]})
    names = images.classes if len(images.classes) > 1 else ()
    metrics = class_metrics(
        images.labels_NC[first], images.of_samples(scores_NC), names, with_monitor
    )
    return {name: float(value[0]) for name, value in metrics(np.ones((1, len(first)))).items()}


# --- metrics ----------------------------------------------------------------------------------


def exchanged(predictions: pd.DataFrame, settings: TransferSettings) -> pd.DataFrame:
    """A control: samples with a partner, which get the scores of its image (``other``)."""
    place = pd.Series(np.arange(len(predictions)), index=predictions["sample_id"])
    paired = predictions[predictions["other"].notna()]
    partner = predictions.iloc[place[paired["other"]].to_numpy()]
    scores = [str(name) for name in predictions if str(name).startswith("score_")]
    return paired.assign(**{name: partner[name].to_numpy() for name in scores})


def over_runs(
    predictions: pd.DataFrame,
    runs: Mapping[str, Sequence[Resampled]],
    settings: TransferSettings,
    supports: Supports,
) -> dict[str, Estimate]:
    """Return the metrics of ``scores.statistic`` with their intervals over runs and samples.

    And the control: ``other_image/<per cent>`` is the first of the settings' metrics, of scores of
    another patient's image.
    """
    size = class_size(columns_of(predictions, "label"), class_names(predictions))
    estimates: dict[str, Estimate] = {}
    for share, of_share in runs.items():
        for name in of_share[0].value:
            kind, slash, class_name = name.partition("/")
            values, number = np.array([run.value[name] for run in of_share]), size(name)
            ends = ends_over(of_share, name, supports, number, settings.intervals.level)
            mean, spread = float(values.mean()), float(values.std(ddof=1))
            key = f"/{share}{slash}{class_name}"
            estimates[kind + key] = Estimate(mean, *ends, number, supports.counts(name))
            estimates[f"{kind}_sd{key}"] = Estimate.counted(spread, number)
    control = exchanged(predictions, settings)
    if len(control):
        once, metric = np.ones((1, len(control))), settings.metrics[0]
        for share, metrics in metrics_by_share(control, settings).items():
            mean = float(np.mean([of_run(once)[metric][0] for of_run in metrics]))
            estimates[f"{OTHER}/{share}"] = Estimate.counted(mean, len(control))
    return estimates


def predictions_of(
    inputs: ModelInputs,
    splits: LabelledSplits,
    scores: RunScores,
    settings: TransferSettings,
) -> Predictions:
    """Return what is reported of the test images' scores.

    Intervals are over the runs too, so that they are no plain bootstrap of :func:`statistic`.
    """
    samples = splits.test.samples()
    partner = exchange(pd.Series(clusters_of(samples["subject_id"])))
    partner_ids = samples["sample_id"].iloc[partner].reset_index(drop=True).where(partner >= 0)
    columns = {"other": partner_ids, **splits.test.run_columns(scores.by_share, settings.run_seeds)}
    table = with_columns(samples, columns)
    intervals = settings.intervals
    clusters = patients(table, intervals.unit)
    by_share = metrics_by_share(table, settings)
    supports = Supports(next(iter(by_share.values()))[0].labels, clusters)
    runs = {
        share: [
            resampled(metrics, clusters, intervals.replicates, intervals.seed, supports)
            for metrics in of_share
        ]
        for share, of_share in by_share.items()
    }
    courses = scores.courses
    records = {
        share: [
            {"seed": seed, **course, **{n: v for n, v in run.value.items() if np.isfinite(v)}}
            for seed, course, run in zip(settings.run_seeds, courses[share], of_share, strict=True)
        ]
        for share, of_share in runs.items()
    }
    data = {
        "pictures": inputs.pixels.fingerprint,
        "classes": list(splits.classes),
        **splits.test.counts(),
        **{f"train_{name}": count for name, count in splits.train.counts().items()},
        **{f"validation_{name}": count for name, count in splits.validation.counts().items()},
        "labelled": {share: len(rows[0]) for share, rows in splits.shares.items()},
        "runs": records,
        "dropped": splits.dropped,
    }
    protocol = {
        "geometry": str(inputs.pixels.geometry),
        "threshold_rule": f"{threshold_words(settings)}, for each run",
        "interval_over": "runs and samples",
    }
    estimates = over_runs(table, runs, settings, supports)
    return Predictions(table, None, data, protocol, estimates=estimates, arrays=scores.arrays)
