"""Fine-tuned classification: a head, then the encoder under it as well (ConVIRT Table 1b).

ConVIRT section 4.2, Appendix B. The head is warmed up on the frozen encoder, in evaluation mode, so
from features that are computed once; then both learn from the images, which nothing augments. A run
is one of the training engine: it keeps its state, and when it is done the test images' scores, in
the state folder, so that what is killed goes on at the run and step it was at.

Shapes: B images, C classes, F features.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from cxr_files.atomic import file_digest, fingerprint, read_json, remove_damaged
from cxrflow.benchmarks.classification.labelled_images import LabelledImages
from cxrflow.benchmarks.classification.probe_settings import FineTunedClassificationSettings
from cxrflow.benchmarks.classification.transfer import (
    TRANSFER,
    LabelledSplits,
    RunScores,
    predictions_of,
    probabilities,
    read_splits,
    scored,
)
from cxrflow.benchmarks.features import encode, weights_file
from cxrflow.benchmarks.heads.early_stopping import HeadRun, LockStep, batches, new_head, warm_up
from cxrflow.benchmarks.inputs import Pixels, read_frames
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.encoders.image_encoder import ImageEncoder, load_image_encoder
from cxrflow.training.precision import choose_device
from cxrflow.training.program import Losses, ParameterRule, Program
from cxrflow.training.state import fitting, read_checked, without_operations, write_checked

log = logging.getLogger("cxrflow")

COLUMNS = TRANSFER


def summed_loss(logits_BC: Tensor, labels_BC: Tensor, exclusive: bool) -> Tensor:
    """Cross-entropies: of a softmax a row, or of a sigmoid each label that is known; their sum."""
    if exclusive:
        return cross_entropy(logits_BC, labels_BC.argmax(1), reduction="sum")
    known_BC = labels_BC.isfinite()
    return binary_cross_entropy_with_logits(
        logits_BC[known_BC], labels_BC[known_BC], reduction="sum"
    )


class FineTuningProgram(Program):
    """One run: the rows of its share, an encoder, and the head on it."""

    def __init__(
        self,
        image: ImageEncoder,
        head: nn.Linear,
        splits: LabelledSplits,
        run: HeadRun,
        pixels: Pixels,
        settings: FineTunedClassificationSettings,
        device: torch.device,
    ) -> None:
        self.image, self.splits, self.run, self.pixels = image, splits, run, pixels
        self.settings, self.device = settings, device
        self.head = nn.Sequential(nn.Dropout(settings.dropout), head)
        # What is classified are the trunk's features: a projection is no part of it.
        self.modules = {"image": image.encoder.to(device), "head": self.head.to(device)}
        self.parameter_rules: Sequence[ParameterRule] = [ParameterRule("*", decay=True)]  # as torch
        self.labels_NC = torch.from_numpy(splits.train.labels_NC).float()
        self.stored = pixels.rows(splits.train.table["image_id"])
        self.record: dict[str, Any] = {}
        self.batches_per_epoch = -(-len(run.rows) // settings.training.batch_size)

    def rows(self, epoch: int, index: int) -> NDArray[np.int64]:
        """Rows of a batch; the last one of an epoch may be short."""
        batch: NDArray[np.int64] = batches([self.run], self.settings.training.batch_size, epoch)[
            index
        ][0].numpy()
        return batch

    def losses(self, batch: tuple[int, int], micro_batch: int, micro_batches: int) -> Losses:
        """The share of a ``micro_batch`` in the mean over the batch's rows, or known labels."""
        rows, exclusive = self.rows(*batch), self.settings.exclusive
        every_BC = self.labels_NC[rows]
        number = len(rows) if exclusive else max(1, int(every_BC.isfinite().sum()))
        own_rows = np.array_split(rows, micro_batches)[micro_batch]
        stored = self.stored[own_rows]
        frames = read_frames(self.pixels, stored)
        frames = frames.each(lambda images: images.to(self.device))
        logits_BC = self.head(self.image.encoder(frames).pooled.float()).float()
        labels_BC = self.labels_NC[own_rows].to(self.device)
        loss = summed_loss(logits_BC, labels_BC, exclusive) / number
        return Losses(loss, {"cross_entropy": loss.detach()}, len(own_rows), 0)

    def after_update(self) -> None:
        """Nothing follows the weights."""

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of a batch."""
        ids = self.splits.train.table["sample_id"].astype(str).to_list()
        return [ids[row] for row in self.rows(epoch, index)]

    @torch.no_grad()
    def logits(self, images: LabelledImages) -> Tensor:
        """Logits [N, C] of images, on the CPU."""
        stored, size = self.pixels.rows(images.table["image_id"]), self.settings.training.batch_size
        blocks = []
        for begin in range(0, len(stored), size):
            rows = stored[begin : begin + size]
            frames = read_frames(self.pixels, rows)
            pooled = self.image.encoder(frames.each(lambda images: images.to(self.device))).pooled
            blocks.append(self.head(pooled.float()).float().cpu())
        return torch.cat(blocks)

    def validate(self) -> dict[str, float]:
        """Loss and metrics of the validation images; of these, the one that counts is kept."""
        images, settings = self.splits.validation, self.settings
        logits_NC, labels_NC = self.logits(images), torch.from_numpy(images.labels_NC).float()
        number = len(labels_NC) if settings.exclusive else int(labels_NC.isfinite().sum())
        loss = summed_loss(logits_NC, labels_NC, settings.exclusive) / number
        scores_NC = probabilities(logits_NC, settings.exclusive)
        monitor = settings.training.stopping.monitor
        values = {"loss": float(loss), **scored(images, scores_NC, settings, monitor)}
        self.record = {"validation": values.get(monitor)}
        return values

    def validation_record(self) -> dict[str, Any]:
        """The value by which weights are kept."""
        return self.record

    def export(self, folder: Path) -> None:
        """``scores.npy``: the test images' probabilities [N, C]."""
        scores_NC = probabilities(self.logits(self.splits.test), self.settings.exclusive)
        np.save(folder / "scores.npy", scores_NC)


def warmed_head(
    image: ImageEncoder,
    splits: LabelledSplits,
    run: HeadRun,
    pixels: Pixels,
    settings: FineTunedClassificationSettings,
    path: Path,
) -> nn.Linear:
    """The head of a run after its own updates, from ``path`` where that holds it whole."""
    device, size = choose_device(settings.device), settings.training.batch_size
    weights = read_checked(path)
    if weights is None:
        if path.is_file():
            log.warning("%s is damaged; training the head again", path)
        order = torch.cat(batches([run], size, 0), dim=1)[0].numpy()
        first_rows = order[: max(1, settings.warmup_steps) * size]  # what these updates get to
        table = splits.train.table.iloc[first_rows][["image_id"]].reset_index(drop=True)
        features_NF = encode(image, pixels, table, size, device)["pooled"].to(device)
        place = np.full(len(splits.train.table), -1)
        place[first_rows] = np.arange(len(first_rows))
        labels_NC = torch.from_numpy(splits.train.labels_NC[first_rows]).to(device)
        runs = [HeadRun(place[run.rows], run.seed, run.start)]
        decay = settings.training.optimiser.weight_decay
        heads = LockStep(features_NF, labels_NC, settings.exclusive, runs, settings.dropout, decay)
        head_GC = warm_up(heads, runs, settings.warmup_steps, size, settings.warmup_rate)[0].cpu()
        weights = {"weight": head_GC[:-1].T.contiguous(), "bias": head_GC[-1].clone()}
        write_checked(path, weights)
    with fitting(path):
        run.start.load_state_dict(weights)
    return run.start


def train_run(
    image: ImageEncoder,
    splits: LabelledSplits,
    rows: NDArray[np.int64],
    seed: int,
    pixels: Pixels,
    settings: FineTunedClassificationSettings,
    identity: dict[str, Any],
    folder: Path,
) -> None:
    """Train one run to its end, from where ``folder`` says it is."""
    from cxrflow.training.engine import Engine  # and TensorBoard, which reference rows do not need

    device = choose_device(settings.device)
    image.eval()
    run = HeadRun(rows, seed, new_head(image.encoder.features, len(splits.classes), seed))
    head = warmed_head(image, splits, run, pixels, settings, folder / "head.pt")
    program = FineTuningProgram(image, head, splits, run, pixels, settings, device)
    run_identity = {**identity, "model": folder.name, "seed": seed}
    memory_advice = ("a smaller batch_size, or accumulate, of `training`",)
    Engine(program, settings.training, seed, run_identity, memory_advice).run(
        folder / "state", folder / "scores"
    )


def predict(inputs: ModelInputs, settings: FineTunedClassificationSettings) -> Predictions:
    """Fine-tune a model in each run of each share and classify the test images."""
    splits = read_splits(inputs, settings)
    return predictions_of(inputs, splits, inputs.ask(scores, splits, settings), settings)


def scores(
    inputs: ModelInputs, splits: LabelledSplits, settings: FineTunedClassificationSettings
) -> RunScores:
    """The test images' probabilities by a model in each run of each share."""
    pixels, options = inputs.pixels, inputs.options
    image = load_image_encoder(options.model, trunk_alone=True)
    image.projector = None
    weights = {name: value.clone() for name, value in image.state_dict().items()}
    identity = {
        "program": "fine_tuning",
        "settings": settings.model_dump(mode="json"),
        "data": {
            "images": inputs.cohort.fingerprint(pixels),
            "image": file_digest(weights_file(options.model))[:16],
        },
    }
    work = options.state / fingerprint(without_operations(identity))
    by_share: dict[str, list[NDArray[np.float64]]] = {}
    courses: dict[str, list[dict[str, Any]]] = {}
    for share, runs in splits.shares.items():
        by_share[share], courses[share] = [], []
        for rows, seed in zip(runs, settings.run_seeds, strict=True):
            folder = work / f"{share}_seed{seed}"
            output = folder / "scores"
            remove_damaged(output)
            if not (output / "run.json").is_file():
                image.load_state_dict(weights)
                train_run(image, splits, rows, seed, pixels, settings, identity, folder)
            record = read_json(output / "run.json")
            by_share[share].append(np.load(output / "scores.npy"))
            per_epoch = record["steps"] / record["epochs"]
            courses[share].append(
                {
                    "epochs": record["epochs"],
                    "best_epoch": record["kept_step"] / per_epoch,
                    "validation": record["validation"],
                }
            )
    return RunScores(by_share, courses)
