"""Baselines of images: plain features of the pixels in an encoder's place (not of the papers).

Each goes through the same probe, head or search as a model's features, so that what a trained
encoder adds stands beside it.

*Zero-shot*: ``nothing`` gives every image the same score. ``brightness`` calls an image positive
the brighter it is on the whole, for every class. ``thumbnail`` is what the image at 8 x 8 pixels
says to heads that learn from *all* labels: the class-weighted logistic regression of
``classification.fold_probe``, in five folds by patient, so that no image is scored by a head that
has seen its patient. Prompts play no part: a row scores alike for every pair of them.

Scores of different folds are pooled. For AUROC that is valid here: both labels count the same in
every fold, so a head's intercept does not follow how frequent the class is in the other folds,
which would pull pooled scores below chance; and two heads share three quarters of what each learns
from. Where all labels of one kind lie in one fold, that fold has no head, and the other images have
one label: the class does not count, as one without both labels does not.
``protocol.classes_without_head`` names it, so that no difference is taken between means over unlike
classes. An exclusive class of this kind is never the answer.

*Transfer*: ``nothing`` gives every image the share of the labels that say so: of exclusive classes,
the most frequent one. Heads on plain features learn as the models' do: by the task's rate, batches
and stopping rule, in fine-tuning after the head's own updates. ``<name>_optimum`` brings the head
to the optimum of logistic regression, which depends on none of these. Where a share has no image of
an exclusive class there is no optimum but a limit, which gives it the probability 0, as ``nothing``
does; ``data.runs`` names such classes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import expit

from cxr_files.errors import InputError
from cxr_labels.observations import OBSERVATIONS
from cxrflow.benchmarks.classification.fold_probe import FOLD, score_by_folds
from cxrflow.benchmarks.classification.labelled_images import (
    LabelledImages,
    class_columns,
    labelled_images,
)
from cxrflow.benchmarks.classification.linear_classification import Sweep, images_of
from cxrflow.benchmarks.classification.pictures import draw_classes
from cxrflow.benchmarks.classification.probe_settings import (
    FineTunedClassificationSettings,
    FoldProbeSettings,
    LinearClassificationSettings,
    TransferSettings,
)
from cxrflow.benchmarks.classification.transfer import LabelledSplits, RunScores, probabilities
from cxrflow.benchmarks.classification.zero_shot_classification import statistic
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.heads.early_stopping import warm_up
from cxrflow.benchmarks.heads.logistic_regression import train_probes
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.inputs import Pixels, read_frames
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.rows.truth import ORACLE, STATES, answers, grades, same_category, states
from cxrflow.metrics.intervals import Floats

OPTIMUM = "_optimum"
WORDS = {
    "nothing": "the same for every image",
    "brightness": "the mean brightness of the image",
    "thumbnail": "logistic regression on the image at 8 x 8 pixels, learnt from all labels, both "
    "of which count the same, in five folds by patient",
    ORACLE: "1 where the class is there, else 0",
    STATES: "how severe the finding is in the state that the hospital drew",
}
_BATCH = 256
_BINS, _THUMBNAIL, _RANDOM_INPUT, _RANDOM = 32, 8, 32, 512


def thumbnails(images: NDArray[np.uint8], size: int) -> Floats:
    """Mean brightness [N, size * size] in [0, 1] of the cells of square images [N, S, S]."""
    scaled = torch.from_numpy(images.astype(np.float64) / 255)
    cells = torch.nn.functional.adaptive_avg_pool2d(scaled, size)
    return cells.flatten(1).numpy()


def intensities(images: NDArray[np.uint8]) -> Floats:
    """The share [N, 32] of pixels of each brightness: what is known without any place."""
    flat = images.reshape(len(images), -1).astype(np.int64) * _BINS // 256
    offsets = np.arange(len(images))[:, None] * _BINS
    counted = np.bincount((flat + offsets).ravel(), minlength=len(images) * _BINS)
    return counted.reshape(len(images), _BINS) / flat.shape[1]


def random_features(images: NDArray[np.uint8]) -> Floats:
    """512 random cosines of the image at 32 x 32 (Rahimi and Recht 2007): nothing is learnt."""
    rng = np.random.default_rng(0)
    inputs = thumbnails(images, _RANDOM_INPUT)
    # A kernel width of the order of the distance between two images.
    weights = rng.normal(0, 1 / (0.2 * _RANDOM_INPUT), (inputs.shape[1], _RANDOM))
    return np.sqrt(2 / _RANDOM) * np.cos(inputs @ weights + rng.uniform(0, 2 * np.pi, _RANDOM))


def described(name: str, images: NDArray[np.uint8]) -> Floats:
    """The features [N, F] of one reference row for images [N, S, S]."""
    if name == "nothing":
        return np.zeros((len(images), 1))
    if name == "thumbnail":
        return thumbnails(images, _THUMBNAIL)
    return intensities(images) if name == "intensity" else random_features(images)


def stored_features(name: str, pixels: Pixels, image_ids: pd.Series) -> torch.Tensor:
    """The same [N, F] of images of a pixel store, float32."""
    rows = pixels.rows(image_ids)
    starts = range(0, len(rows), _BATCH)
    blocks = [described(name, shown(pixels, rows[i : i + _BATCH])) for i in starts]
    return torch.from_numpy(np.concatenate(blocks)).float()


def shown(pixels: Pixels, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return images [N, S, S] of a store, as an encoder that has learnt nothing sees them."""
    frames = read_frames(pixels, rows)
    return (frames.current[:, 0] * 255).round().byte().numpy()


def plain_features(name: str, pixels: Pixels, table: pd.DataFrame) -> Features:
    """Return the features of a reference row, of those images of a table that are stored."""
    encoded = table.drop_duplicates("image_id")
    encoded = encoded[pixels.holds(encoded["image_id"])].reset_index(drop=True)
    if name == ORACLE:
        pooled = torch.from_numpy(answers(encoded)).float()
    else:
        pooled = stored_features(name, pixels, encoded["image_id"])
    return features_of(encoded, pooled, pixels)


def features_of(encoded: pd.DataFrame, pooled: torch.Tensor, pixels: Pixels) -> Features:
    """Vectors [N, F] in the place of an encoder's."""
    by_kind = {"pooled": pooled}
    return Features(encoded[["image_id"]], by_kind, str(pixels.geometry), pixels.fingerprint)


class Pictures(Row):
    """Plain features of the cohort's images; ``nothing`` is one that is the same for all."""

    def features(self, inputs: ModelInputs) -> Features:
        """Features of those of the cohort's images that are stored."""
        table = inputs.cohort.table
        if self.name == STATES:
            graded = grades(states(inputs.options.truth, table, inputs.source), OBSERVATIONS)
            return features_of(table, torch.from_numpy(graded).float(), inputs.pixels)
        return plain_features(self.name, inputs.pixels, table)

    def scores(
        self, inputs: ModelInputs, queries: pd.DataFrame, candidates: pd.DataFrame
    ) -> Floats:
        """The scores [Q, C] of candidates for texts, of which the oracle knows the categories."""
        return same_category(queries["category"], candidates["category"])


# --- zero-shot ------------------------------------------------------------------------------------


class Prompted(Row):
    """Scores of images without a look at prompts."""

    def __init__(self, name: str, settings: Any) -> None:
        super().__init__(name, settings)
        self.protocol["score"] = WORDS[name]
        self.heads: _Heads | None = None

    def features(self, inputs: ModelInputs) -> Features:
        """Features of the images of the parts that the task reads."""
        plain = "thumbnail" if self.name in ("brightness", "thumbnail") else "nothing"
        return plain_features(plain, inputs.pixels, self._table(inputs))

    def scores(
        self, inputs: ModelInputs, images: LabelledImages, settings: Any
    ) -> dict[str, Floats]:
        """The scores [N, C], which are those of every pair of prompts."""
        kinds = ("score", *(f"score/{pair.name}" for pair in settings.prompt_pairs))
        if self.name == "thumbnail":
            self.heads = self.heads or _Heads(inputs, self._table(inputs), settings)
            return dict.fromkeys(kinds, self.heads.scores(images))
        if self.name == ORACLE:
            return dict.fromkeys(kinds, (images.labels_NC == 1).astype(np.float64))
        if self.name == STATES:
            state_N = states(inputs.options.truth, images.table, inputs.source)
            return dict.fromkeys(kinds, grades(state_N, images.classes))
        mean_N = inputs.features.of(images.table, "pooled").double().mean(dim=1).numpy()
        return dict.fromkeys(kinds, np.tile(mean_N[:, None], (1, len(images.classes))))

    def completed(self, predictions: Predictions) -> Predictions:
        if self.heads is not None:
            predictions = self.heads.completed(predictions)
        return super().completed(predictions)

    def _table(self, inputs: ModelInputs) -> pd.DataFrame:
        tables = [inputs.rows(split) for split in self.settings.parts]
        return pd.concat(tables, ignore_index=True)


class _Heads:
    """Heads that learn from the images of all parts that the task reads.

    So a threshold that is chosen on another part is one of the same heads' scores.
    """

    def __init__(self, inputs: ModelInputs, table: pd.DataFrame, settings: Any) -> None:
        self.settings = settings
        each = settings.model_copy(update={"sample": "image"})
        images = self.images = labelled_images(table, inputs.cohort, inputs.features, each)
        # Images of a study whose patient is not known lie in one fold too.
        studies = "study " + images.table["group_id"].astype("string")
        subjects = images.table["subject_id"].astype("string").fillna(studies).astype(object)
        by_patient = replace(images, table=images.table.assign(subject_id=subjects))
        how = FoldProbeSettings(device=inputs.device.type)
        self.folds_N, probe = score_by_folds(by_patient, inputs.features, how, inputs.source)
        self.learnt_C = np.asarray(probe.learnt_KC.all(axis=0))
        if not self.learnt_C.any():
            raise InputError(
                f"{inputs.source}: {', '.join(images.classes)} cannot be learnt in {how.folds} "
                "folds; expected a class whose labels 1 and 0 are in several of them"
            )
        self.rows = pd.Index(images.table["sample_id"])
        self.scores_NC = np.where(self.learnt_C, expit(probe.logit_NC), 0.0)

    def scores(self, images: LabelledImages) -> Floats:
        """The scores [N, C] of some of the images."""
        return self.scores_NC[self.rows.get_indexer(images.table["sample_id"])]

    def completed(self, predictions: Predictions) -> Predictions:
        """With the fold of each sample, and without the labels of classes that have no head."""
        settings, classes, samples = self.settings, self.images.classes, predictions.table
        folds = self.folds_N[self.rows.get_indexer(samples["sample_id"])]
        samples = samples.assign(**{FOLD: folds})
        without = [name for name, learnt in zip(classes, self.learnt_C, strict=True) if not learnt]
        if not without:
            return replace(predictions, table=samples)
        if not settings.exclusive:
            labels = np.array(class_columns("label", classes))[~self.learnt_C]
            samples = samples.assign(**dict.fromkeys(labels, np.nan))
        return replace(
            predictions,
            table=samples,
            statistic=statistic(samples, settings),
            protocol={**predictions.protocol, "classes_without_head": without},
            draw=lambda metrics: [draw_classes(samples, metrics, settings)],
        )


# --- transfer -------------------------------------------------------------------------------------


class Transferred(Row):
    """No encoder: the same shares of the labels as a model's head, or the answers themselves."""

    def scores(self, inputs: ModelInputs, splits: LabelledSplits, settings: Any) -> RunScores:
        """The test images' probabilities in each run of each share."""
        if self.name == "nothing":
            scores = frequencies(splits)
        elif self.name == ORACLE:
            label_NC = (splits.test.labels_NC == 1).astype(np.float64)
            scores = ((share, [label_NC] * len(runs)) for share, runs in splits.shares.items())
        elif self.name.endswith(OPTIMUM):
            scores = optima(self.name.removesuffix(OPTIMUM), splits, inputs.pixels, settings)
        else:
            scores = own_solver(self.name, splits, inputs.pixels, settings)
        absences = {
            share: [
                {"absent": [splits.classes[c] for c in np.flatnonzero(is_absent)]}
                if any(is_absent)
                else {}
                for is_absent in absent(splits, runs, settings)
            ]
            for share, runs in splits.shares.items()
        }
        return RunScores(dict(scores), absences)


def frequencies(splits: LabelledSplits) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the classes' frequencies, for each of N test images [N, C]."""
    for share, each in splits.shares.items():
        labels = [splits.train.labels_NC[rows] for rows in each]
        means = [
            np.nansum(labels_NC, axis=0) / np.isfinite(labels_NC).sum(axis=0).clip(1)
            for labels_NC in labels
        ]
        yield share, [np.tile(mean_C, (len(splits.test.table), 1)) for mean_C in means]


def own_solver(
    name: str, splits: LabelledSplits, pixels: Pixels, settings: TransferSettings
) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the probabilities [N, C] of a head that learns as the models' do."""
    sweep = Sweep(plain_features(name, pixels, images_of(splits)), splits, head_settings(settings))
    for share in splits.shares:
        runs = sweep.runs(share)
        if isinstance(settings, FineTunedClassificationSettings):
            size = settings.training.batch_size
            steps, rate = settings.warmup_steps, settings.warmup_rate
            heads_KGC = warm_up(sweep.lock_step(runs), runs, steps, size, rate)
            for run, head_GC in zip(runs, heads_KGC, strict=True):
                run.start.load_state_dict({"weight": head_GC[:-1].T, "bias": head_GC[-1]})
        yield share, [sweep.test(head) for head in sweep.train(runs)]


def head_settings(settings: TransferSettings) -> LinearClassificationSettings:
    """Return how a head alone learns in this task."""
    if isinstance(settings, LinearClassificationSettings):
        return settings
    assert isinstance(settings, FineTunedClassificationSettings)
    training, validate_steps = settings.training, settings.training.validate_steps
    validations = training.epochs or -(-(training.steps or 1) // (validate_steps or 1))
    training_values = {
        "learning_rate": training.optimiser.learning_rate,
        "weight_decay": training.optimiser.weight_decay,
        "batch_size": training.batch_size,
        "factor": training.schedule.factor,
        "plateau": training.schedule.patience,
        "patience": training.stopping.patience or validations,
        "epochs": validations,
        "validate_steps": validate_steps,
        "monitor": training.stopping.monitor,
    }
    shared = {name: getattr(settings, name) for name in TransferSettings.model_fields}
    return LinearClassificationSettings.model_validate({**shared, **training_values})


def optima(
    name: str, splits: LabelledSplits, pixels: Pixels, settings: TransferSettings
) -> Iterator[tuple[str, list[Floats]]]:
    """For each share and run the probabilities [N, C] by plain features of the images."""
    train_NF, test_NF = (
        stored_features(name, pixels, images.table["image_id"])
        for images in (splits.train, splits.test)
    )
    labels_NC = splits.train.labels_NC
    for share, each in splits.shares.items():
        scores_by_run = [np.zeros((len(test_NF), len(splits.classes))) for _ in each]
        present_by_run = [
            tuple(np.flatnonzero(~is_absent)) for is_absent in absent(splits, each, settings)
        ]
        for present in dict.fromkeys(present_by_run):
            labels = labels_NC[:, present]
            start_FC = torch.zeros(train_NF.shape[1], len(present))
            numbers = [
                number for number, classes in enumerate(present_by_run) if classes == present
            ]
            runs = [(each[number], start_FC) for number in numbers]
            targets = labels.argmax(axis=1) if settings.exclusive else labels
            heads, _ = train_probes(train_NF, targets, runs, ConvergedSolver())
            for number, logits_NC in zip(numbers, heads.logits(test_NF), strict=True):
                scores_by_run[number][:, present] = probabilities(logits_NC, settings.exclusive)
        yield share, scores_by_run


def absent(
    splits: LabelledSplits, each: Sequence[NDArray[np.int64]], settings: TransferSettings
) -> list[NDArray[np.bool_]]:
    """Return, for each run, which exclusive classes [C] have no row; never one of other classes."""
    counts = [np.nansum(splits.train.labels_NC[rows], axis=0) for rows in each]
    return [(count_C == 0) & settings.exclusive for count_C in counts]
