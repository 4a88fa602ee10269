"""Linear classification: a head on frozen features, stopped by validation (ConVIRT Table 1a).

ConVIRT section 4.2, Appendix B. The encoder is in evaluation mode and no augmentation is stated,
so that every image is encoded once for all shares and runs; the runs of a share learn in lock step
(``heads.early_stopping``). Features, and the heads of shares that are done, stand in the state
folder until the result is written: what is killed goes on at the share it was at.

``heads.npy``: the heads [shares, runs, features + 1, classes], their bias last.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.atomic import file_digest, fingerprint, remove_damaged
from cxrflow.benchmarks.classification.probe_settings import LinearClassificationSettings
from cxrflow.benchmarks.classification.transfer import (
    TRANSFER,
    LabelledSplits,
    RunScores,
    predictions_of,
    probabilities,
    read_splits,
    scored,
)
from cxrflow.benchmarks.features import (
    Features,
    computed_from,
    encode,
    read_features,
    weights_file,
    write_features,
)
from cxrflow.benchmarks.heads.early_stopping import (
    HeadRun,
    LockStep,
    TrainedHead,
    new_head,
    train_until_plateau,
)
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.encoders.image_encoder import load_image_encoder
from cxrflow.training.monitor import Monitor
from cxrflow.training.precision import choose_device
from cxrflow.training.state import fitting, read_checked, write_checked

log = logging.getLogger("cxrflow")

COLUMNS = TRANSFER


def images_of(splits: LabelledSplits) -> pd.DataFrame:
    """The images that any run learns from, chooses by or is scored on, each once."""
    rows = np.unique(np.concatenate([rows for each in splits.shares.values() for rows in each]))
    tables = [splits.train.table.iloc[rows], splits.validation.table, splits.test.table]
    ids = pd.concat([table[["image_id"]] for table in tables])
    return ids.drop_duplicates(ignore_index=True)


def encoded(
    model: Path,
    splits: LabelledSplits,
    pixels: Pixels,
    settings: LinearClassificationSettings,
    folder: Path,
) -> Features:
    """Features of the images that are needed, from ``folder`` where it holds them whole."""
    remove_damaged(folder)
    if not (folder / "features.json").is_file():
        image = load_image_encoder(model, trunk_alone=True)
        image.projector = None  # the trunk's features alone
        images, device = images_of(splits), choose_device(settings.device)
        by_kind = encode(image, pixels, images, settings.encoder_batch_size, device)
        write_features(folder, images, by_kind, computed_from(model, pixels))
    return read_features(folder, model)


class Sweep:
    """The runs of a task on the features of its images, share by share."""

    def __init__(
        self, features: Features, splits: LabelledSplits, settings: LinearClassificationSettings
    ) -> None:
        self.splits, self.settings = splits, settings
        device = choose_device(settings.device)
        self.features_NF = features.by_kind["pooled"].to(device)
        self.rows, validation, test = (
            features.rows(images.table) for images in (splits.train, splits.validation, splits.test)
        )
        self.validation_NF, self.test_NF = (
            self.features_NF[torch.from_numpy(rows).to(device)] for rows in (validation, test)
        )
        # Of the rows of the features; images that no share has were not encoded.
        is_encoded = self.rows >= 0
        labels_NC = np.full((len(self.features_NF), len(splits.classes)), np.nan)
        labels_NC[self.rows[is_encoded]] = splits.train.labels_NC[is_encoded]
        self.labels_NC = torch.from_numpy(labels_NC).to(device)

    def runs(self, share: str) -> list[HeadRun]:
        """The runs of a share before training."""
        width, classes = self.features_NF.shape[1], len(self.splits.classes)
        return [
            HeadRun(self.rows[rows], seed, new_head(width, classes, seed))
            for rows, seed in zip(self.splits.shares[share], self.settings.run_seeds, strict=True)
        ]

    def lock_step(self, runs: Sequence[HeadRun]) -> LockStep:
        """Runs that learn together, from where their heads are."""
        settings = self.settings
        return LockStep(
            *(self.features_NF, self.labels_NC, settings.exclusive, runs),
            *(settings.dropout, settings.weight_decay),
        )

    def train(self, runs: Sequence[HeadRun]) -> list[TrainedHead]:
        """The heads of runs."""
        settings = self.settings
        return train_until_plateau(
            *(self.lock_step(runs), runs, self.validate),
            *(settings.batch_size, settings.learning_rate, settings.rhythm),
        )

    def validate(self, head: TrainedHead) -> dict[str, float]:
        """The validation images' metrics."""
        scores_NC = probabilities(head.logits(self.validation_NF), self.settings.exclusive)
        return scored(self.splits.validation, scores_NC, self.settings, self.settings.monitor)

    def tested(
        self, heads: Mapping[str, Sequence[TrainedHead]]
    ) -> dict[str, list[NDArray[np.float64]]]:
        """The test images' probabilities by the heads of each share."""
        return {share: [self.test(head) for head in runs] for share, runs in heads.items()}

    def test(self, head: TrainedHead) -> NDArray[np.float64]:
        """The test images' probabilities [N, C]."""
        return probabilities(head.logits(self.test_NF), self.settings.exclusive)


def resumed(path: Path, train: Callable[[], list[TrainedHead]]) -> list[TrainedHead]:
    """The heads that ``path`` holds; they are trained where it is absent or damaged."""
    heads = read_checked(path)
    if heads is None:
        if path.is_file():
            log.warning("%s is damaged; training its heads again", path)
        heads = [{**asdict(head), "head_GC": head.head_GC.cpu()} for head in train()]
        write_checked(path, heads)
    with fitting(path):
        return [TrainedHead(**{**head, "monitor": Monitor(**head["monitor"])}) for head in heads]


def predict(inputs: ModelInputs, settings: LinearClassificationSettings) -> Predictions:
    """Train the heads of a task and classify the test images by them."""
    splits = read_splits(inputs, settings)
    return predictions_of(inputs, splits, inputs.ask(scores, splits, settings), settings)


def scores(
    inputs: ModelInputs, splits: LabelledSplits, settings: LinearClassificationSettings
) -> RunScores:
    """The test images' probabilities by heads on a model's features."""
    model = inputs.options.model
    origin = [
        settings.model_dump(mode="json"),
        inputs.cohort.fingerprint(inputs.pixels),
        file_digest(weights_file(model)),
    ]
    work = inputs.options.state / fingerprint(origin)  # a state of another origin is not resumed
    features = encoded(model, splits, inputs.pixels, settings, work / "features")
    sweep = Sweep(features, splits, settings)
    heads = {
        share: resumed(work / f"{share}.pt", partial(sweep.train, sweep.runs(share)))
        for share in splits.shares
    }
    courses = {
        share: [
            {"epochs": h.epochs, "best_epoch": h.monitor.step, "validation": -h.monitor.best}
            for h in runs
        ]
        for share, runs in heads.items()
    }
    weights = np.array([[head.head_GC.numpy() for head in runs] for runs in heads.values()])
    return RunScores(sweep.tested(heads), courses, {"heads": weights})


def scores_of_features(
    features: Features, splits: LabelledSplits, settings: LinearClassificationSettings
) -> RunScores:
    """The same by heads on features of the cohort's images, without a state to resume from."""
    sweep = Sweep(features, splits, settings)
    heads = {share: sweep.train(sweep.runs(share)) for share in splits.shares}
    courses = {share: [{"epochs": head.epochs} for head in runs] for share, runs in heads.items()}
    return RunScores(sweep.tested(heads), courses)
