"""Reference rows of transfer: no encoder, the same shares of the labels as a model's head.

``nothing`` gives every image the share of the labels that say so: of exclusive classes, the most
frequent one. The others are plain features of the pixels in an encoder's place. Their head learns
as the models' do: by the task's rate, batches and stopping rule, in fine-tuning after the head's
own updates. ``<name>_optimum`` brings it to the optimum of logistic regression, which depends on
none of these. Where a share has no image of an exclusive class there is no optimum but a limit,
which gives it the probability 0, as ``nothing`` does; ``data.runs`` names such classes. Not in the
paper.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.linear_classification import Sweep, images_of
from cxrflow.benchmarks.classification.probe_settings import (
    FineTunedClassificationSettings,
    LinearClassificationSettings,
    TransferSettings,
)
from cxrflow.benchmarks.classification.references import plain_features, stored_features
from cxrflow.benchmarks.classification.transfer import (
    LabelledSplits,
    predictions_of,
    probabilities,
    read_splits,
)
from cxrflow.benchmarks.heads.early_stopping import warm_up
from cxrflow.benchmarks.heads.logistic_regression import train_probes
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Floats

OPTIMUM = "_optimum"


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
    training, every = settings.training, settings.training.validate_steps
    validations = training.epochs or -(-(training.steps or 1) // (every or 1))
    own = {
        "learning_rate": training.optimiser.learning_rate,
        "weight_decay": training.optimiser.weight_decay,
        "batch_size": training.batch_size,
        "factor": training.schedule.factor,
        "plateau": training.schedule.patience,
        "patience": training.stopping.patience or validations,
        "epochs": validations,
        "validate_steps": every,
        "monitor": training.stopping.monitor,
    }
    shared = {name: getattr(settings, name) for name in TransferSettings.model_fields}
    return LinearClassificationSettings.model_validate({**shared, **own})


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


def predict(name: str, inputs: ModelInputs, settings: TransferSettings) -> Predictions:
    """Classify the test images in each run of each share as a reference row does."""
    splits = read_splits(inputs, settings)
    if name == "nothing":
        scores = frequencies(splits)
    elif name.endswith(OPTIMUM):
        scores = optima(name.removesuffix(OPTIMUM), splits, inputs.pixels, settings)
    else:
        scores = own_solver(name, splits, inputs.pixels, settings)
    absences = {
        share: [
            {"absent": [splits.classes[c] for c in np.flatnonzero(is_absent)]}
            if any(is_absent)
            else {}
            for is_absent in absent(splits, runs, settings)
        ]
        for share, runs in splits.shares.items()
    }
    return predictions_of(inputs, splits, dict(scores), absences, settings)
