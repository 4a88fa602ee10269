"""What a pre-trained encoder is worth to a labelled set: parts, shares of the labels, results.

ConVIRT section 4.2, Appendix B, Table 1: classification from 1, 10 and 100 % of the training
labels, each as several runs, by a head on frozen features or by fine-tuning. Validation images
choose the epoch; the score is AUROC, of several classes its mean, or the accuracy of exclusive
classes, and the mean over the runs. Which images a share has is the same for every model. What the
paper calls a patient in MURA is a study, whose images' probabilities are averaged
(``sample: group``), in validation too.

Shapes: N images, S samples, C classes.
"""

import logging
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.benchmarks.classification.labelled_images import (
    COLUMNS,
    LabelledImages,
    class_columns,
    labelled_images,
)
from cxrflow.benchmarks.classification.linear_probe import (
    percent,
    score_column,
    share_rows,
    targets,
)
from cxrflow.benchmarks.classification.linear_probe import statistics as probe_statistics
from cxrflow.benchmarks.classification.scores import (
    class_metrics,
    class_names,
    columns_of,
    sizes,
    threshold_words,
)
from cxrflow.benchmarks.classification.transfer_settings import TransferSettings
from cxrflow.benchmarks.features import Features, trained_geometry
from cxrflow.benchmarks.grounding.controls import exchange
from cxrflow.benchmarks.inputs import Cohort, Pixels, choose_split, open_pixels, read_cohort
from cxrflow.benchmarks.result import Result
from cxrflow.errors import InputError
from cxrflow.files.csv_table import read_lines
from cxrflow.files.drops import Drop
from cxrflow.images.geometry import Geometry
from cxrflow.images.store import PixelStore
from cxrflow.metrics.crossed import over_trainings_and_samples, resampled
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, clusters_of

log = logging.getLogger("cxrflow")

OTHER = "other_image"  # the control's metric


@dataclass(frozen=True)
class Parts:
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


def read_inputs(
    options: Namespace, settings: TransferSettings, model: Path | None = None
) -> tuple[Cohort, Pixels]:
    """The cohort, and its images in the geometry of the task, or else of a ``model``."""
    cohort = read_cohort(options.cohort, "samples.parquet", (*COLUMNS, "image_path", "split"))
    if settings.geometry is not None:
        return cohort, open_pixels(options.pixels, str(Geometry.parse(settings.geometry)))
    if model is None:  # a reference row, which has no geometry of its own
        return cohort, cast(Pixels, PixelStore(options.pixels))
    return cohort, open_pixels(options.pixels, trained_geometry(model))


def read_parts(cohort: Cohort, folder: Path, pixels: Pixels, settings: TransferSettings) -> Parts:
    """The parts of a cohort, whose ``folder`` is named in errors, and what a share is.

    Raises:
        InputError: a part has no image, or no class with both labels; a list names no image.
    """
    source = folder / "samples.parquet"
    stored = cohort.table[["image_id"]].drop_duplicates()
    stored = stored[pixels.holds(stored["image_id"])]
    known = Features(pd.DataFrame(stored), {}, str(pixels.geometry), pixels.fingerprint)
    of_images = settings.model_copy(update={"sample": "image"})
    wanted = {
        settings.train_split: of_images,  # every image is learnt from, of whatever group
        settings.validation_split: settings,
        settings.split: settings,
    }
    parts, dropped = [], []
    for split, own in wanted.items():
        rows = choose_split(cohort.table, split, source)
        try:
            part = labelled_images(rows, cohort.classes, known, own.labels)
        except InputError as error:
            raise InputError(f"{source}, split '{split}': {error}") from None
        parts.append(part)
        dropped += [{**one, "part": split} for one in part.dropped]
    shares, lost = shares_of(parts[0], settings)
    return Parts(parts[0], parts[1], parts[2], shares, dropped + lost)


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
    apart = settings.exclusive or len(train.classes) == 1
    labels = targets(train, "softmax") if apart and settings.stratified else train.labels_NC
    return share_rows(labels, fraction, seed)


def listed_rows(train: pd.DataFrame, path: Path) -> tuple[NDArray[np.int64], Drop]:
    """Rows of the training images that a file names by id or path, and what it names besides."""
    if not path.is_file():
        raise InputError(f"{path}: file not found; expected a list of training images")
    lines = read_lines(path)
    named = list(dict.fromkeys(line.split()[0] for line in lines if line.strip()))
    numbers = range(len(train))
    row_of = {
        **dict(zip(train["image_path"], numbers, strict=True)),
        **dict(zip(train["image_id"], numbers, strict=True)),
    }
    rows = sorted({row_of[name] for name in named if name in row_of})
    if not rows:
        raise InputError(
            f"{path}: names none of the {len(train)} training images; expected the image_id or "
            "image_path of some, one a line"
        )
    lost = Drop.of(f"listed in {path.name}, no training image", set(named) - set(row_of))
    return np.array(rows, dtype=np.int64), lost


def probabilities(logits_NC: Tensor, exclusive: bool) -> Floats:
    """[N, C]: of exclusive classes their sum is 1."""
    logits = logits_NC.double()
    found: Floats = (logits.softmax(1) if exclusive else logits.sigmoid()).cpu().numpy()
    return found


def sample_means(images: LabelledImages, scores_NC: Floats) -> Floats:
    """Mean over the images of each sample [S, C].

    Taken of what differs from one image: of equal scores the means are equal, too, where those of a
    plain sum would be ranked by how many images a study has, through rounding.
    """
    if len(np.unique(images.groups_N)) == len(scores_NC):
        return scores_NC
    of_one_1C = scores_NC[:1]
    return images.of_samples(scores_NC - of_one_1C) + of_one_1C


def scored(
    images: LabelledImages, scores_NC: Floats, settings: TransferSettings, monitor: str
) -> dict[str, float]:
    """The metrics of images by the scores of a head, ``monitor`` among them."""
    first = np.unique(images.groups_N, return_index=True)[1]
    wanted = settings.labels.model_copy(update={"metrics": [monitor]})
    names = images.classes if len(images.classes) > 1 else ()
    metrics = class_metrics(images.labels_NC[first], sample_means(images, scores_NC), names, wanted)
    return {name: float(value[0]) for name, value in metrics(np.ones((1, len(first)))).items()}


# --- metrics ----------------------------------------------------------------------------------


def runs_of(
    predictions: pd.DataFrame, settings: TransferSettings
) -> Iterator[tuple[str, list[Statistic]]]:
    """The shares, and of each the metrics of its runs."""
    names, labels_NC = class_names(predictions), columns_of(predictions, "label")
    for share in map(percent, settings.fractions):
        columns = [score_column(share, seed) for seed in settings.run_seeds]
        scores = [columns_of(predictions, column) for column in columns]
        yield share, [class_metrics(labels_NC, one, names, settings.labels) for one in scores]


def exchanged(predictions: pd.DataFrame, settings: TransferSettings) -> pd.DataFrame:
    """A control: samples with a partner, which get the scores of its image (``other``)."""
    place = pd.Series(np.arange(len(predictions)), index=predictions["sample_id"])
    own = predictions[predictions["other"].notna()]
    partner = predictions.iloc[place[own["other"]].to_numpy()]
    scores = [str(name) for name in predictions if str(name).startswith("score_")]
    return own.assign(**{name: partner[name].to_numpy() for name in scores})


def statistics(predictions: pd.DataFrame, settings: TransferSettings) -> Statistic:
    """``<metric>/<per cent>``, the mean over the runs, and their spread ``<metric>_sd/<…>``."""
    return probe_statistics(predictions, settings.labels)


def summarise(predictions: pd.DataFrame, settings: TransferSettings) -> dict[str, Estimate]:
    """The metrics of :func:`statistics`, with their intervals over runs and samples.

    And the control: ``other_image/<per cent>`` is the first of the settings' metrics, of scores of
    another patient's image.
    """
    names, labels_NC = class_names(predictions), columns_of(predictions, "label")
    chosen = settings.intervals
    clusters = clusters_of(predictions["subject_id"], chosen.unit)
    found: dict[str, Estimate] = {}
    for share, metrics in runs_of(predictions, settings):
        runs = [resampled(one, clusters, chosen.replicates, chosen.seed) for one in metrics]
        behind = sizes(list(runs[0].value), labels_NC, names)
        for name in runs[0].value:
            kind, slash, own = name.partition("/")
            values = np.array([run.value[name] for run in runs])
            patients = min(len(np.unique(clusters)), behind[name])
            ends = over_trainings_and_samples(runs, name, patients, chosen.level)
            mean, spread = float(values.mean()), float(values.std(ddof=1))
            found[f"{kind}/{share}{slash}{own}"] = Estimate(mean, ends.low, ends.high, behind[name])
            found[f"{kind}_sd/{share}{slash}{own}"] = Estimate(
                spread, float("nan"), float("nan"), behind[name]
            )
    control = exchanged(predictions, settings)
    if len(control):
        once = np.ones((1, len(control)))
        for share, metrics in runs_of(control, settings):
            mean = float(np.mean([one(once)[settings.metrics[0]][0] for one in metrics]))
            found[f"{OTHER}/{share}"] = Estimate(mean, float("nan"), float("nan"), len(control))
    return found


def result(
    benchmark: str,
    cohort: Cohort,
    parts: Parts,
    pixels: Pixels,
    scores: Mapping[str, Sequence[Floats]],
    courses: Mapping[str, Sequence[Mapping[str, Any]]],
    settings: TransferSettings,
    **arrays: NDArray[Any],
) -> Result:
    """The whole result of the test images' ``scores`` [N, C] of each run, by share.

    ``courses``: what is said of how the runs of a share went.
    """
    columns = {
        column: values
        for share, each in scores.items()
        for seed, scores_NC in zip(settings.run_seeds, each, strict=True)
        for column, values in zip(
            class_columns(score_column(share, seed), parts.classes),
            sample_means(parts.test, scores_NC).T,
            strict=True,
        )
    }
    samples = parts.test.samples()
    partner = exchange(pd.Series(clusters_of(samples["subject_id"])))
    other = samples["sample_id"].iloc[partner].reset_index(drop=True).where(partner >= 0)
    predictions = samples.assign(other=other, **columns)
    metrics = summarise(predictions, settings)
    protocol = {
        **settings.model_dump(mode="json", exclude={"device", "encoder_batch_size"}),
        "geometry": str(pixels.geometry),
        "threshold_rule": f"{threshold_words(settings.labels)}, for each run",
    }
    once = np.ones((1, len(predictions)))
    runs: dict[str, list[dict[str, Any]]] = {}
    for share, each in runs_of(predictions, settings):
        runs[share] = [{"seed": seed} for seed in settings.run_seeds]
        for run, course in zip(runs[share], courses.get(share, []), strict=False):
            run |= course
        for run, metric in zip(runs[share], each, strict=True):
            values = {name: float(value[0]) for name, value in metric(once).items()}
            run |= {name: value for name, value in values.items() if np.isfinite(value)}
    data = {
        **cohort.data,
        "pictures": pixels.fingerprint,
        "classes": list(parts.classes),
        **parts.test.counts(),
        **{f"train_{name}": count for name, count in parts.train.counts().items()},
        **{f"validation_{name}": count for name, count in parts.validation.counts().items()},
        "labelled": {share: len(rows[0]) for share, rows in parts.shares.items()},
        "runs": runs,
        "dropped": parts.dropped,
    }
    for share in scores:
        found = metrics[f"{settings.metrics[0]}/{share}"]
        log.info("%s %% of the labels: %s %.3f", share, settings.metrics[0], found.value)
    return Result(benchmark, data, protocol, metrics, predictions, arrays=arrays)
