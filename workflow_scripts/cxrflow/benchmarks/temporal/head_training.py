"""Trains a head on pairs of images, with the encoder or on top of it (BioViL-T Appendix F.3).

A program of the training engine, so that a run that is killed goes on where it was. What it writes
is no model but the scores of the test pairs.

Shapes: B pairs, C classes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cxrflow.benchmarks.inputs import Pixels, read_frames
from cxrflow.benchmarks.temporal.image_pairs import LabelledPairs, encode, encode_all
from cxrflow.benchmarks.temporal.settings import FewShot, FineTuning
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.images.augment import Augmentation
from cxrflow.metrics.multiclass import recalls
from cxrflow.training.program import Losses, ParameterRule, Program
from cxrflow.training.sampler import UniformSampler

# "Positional encodings and missing-image embeddings are exempt from weight decay" (F.3).
WITHOUT_DECAY = ("type_embed", "missing_previous_emb")


class Parts(NamedTuple):
    """Pairs of a finding to learn from, to look at, to be scored on, the last with other priors."""

    train: LabelledPairs
    validate: LabelledPairs
    test: dict[str, LabelledPairs]


def class_weights(labels: NDArray[np.int64], classes: int) -> Tensor:
    """Inverse frequencies [C] whose mean over the samples is 1; 0 for a class of no sample."""
    counts = np.bincount(labels, minlength=classes)
    present = counts > 0
    weights = np.zeros(classes)
    weights[present] = len(labels) / (present.sum() * counts[present])
    return torch.from_numpy(weights).float()


def multilayer_head(features: int, hidden: int, classes: int) -> nn.Sequential:
    """Two linear layers, batch normalisation and ReLU between them."""
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, classes),
    )


def linear_head(starts_CP: Tensor) -> nn.Linear:
    """One linear layer that starts as the embeddings of the classes, its bias at 0."""
    head = nn.Linear(starts_CP.shape[1], len(starts_CP))
    with torch.no_grad():
        head.weight.copy_(starts_CP)
        head.bias.zero_()
    return head


class HeadTrainingProgram(Program):
    """Weighted cross-entropy of augmented pairs; a few-shot head's encoder stays as it is."""

    def __init__(
        self,
        image: ImageEncoder,
        head: nn.Module,
        parts: Parts,
        pixels: Pixels,
        classes: int,
        learning: FineTuning | FewShot,
        seed: int,
        device: torch.device,
    ) -> None:
        self.image, self.head, self.parts, self.pixels = image, head, parts, pixels
        self.learning, self.seed, self.device = learning, seed, device
        self.frozen = isinstance(learning, FewShot)
        self.image.to(device).eval().requires_grad_(not self.frozen)
        self.modules: dict[str, nn.Module] = {"head": head.to(device)}
        if not self.frozen:
            # What is classified are the trunk's features: the projection is no part of it.
            self.modules["image"] = image.encoder
        names = [name for name, _ in image.encoder.named_parameters(prefix="image")]
        self.parameter_rules: Sequence[ParameterRule] = [
            ParameterRule(name, decay=False)
            for name in names
            if not self.frozen and name.endswith(WITHOUT_DECAY)
        ]
        training = learning.training
        self.sampler = UniformSampler(len(parts.train), training.batch_size, seed)
        self.batches_per_epoch = self.sampler.batches_per_epoch
        self.classes = classes
        self.weights_C = class_weights(parts.train.labels, classes).to(device)
        self.augmentation = Augmentation(learning.augmentation)

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """The share of a part of a batch in the batch's weighted mean."""
        rows = self.sampler.rows(epoch, index)
        train = self.parts.train
        total = self.weights_C[torch.from_numpy(train.labels[rows]).to(self.device)].sum()
        own = train.rows(np.array_split(rows, parts)[part])
        frames = read_frames(
            self.pixels,
            own.current,
            own.prior,
            lambda stored: self.augmentation(stored, self.seed, epoch),
        )
        frames = frames.each(lambda one: one.to(self.device))
        with torch.set_grad_enabled(not self.frozen):
            features = encode(self.image, frames, projected=self.frozen)
        logits = self.head(features.float()).float()
        labels = torch.from_numpy(own.labels).to(self.device)
        loss = cross_entropy(logits, labels, self.weights_C, reduction="sum") / total
        return Losses(loss, {"cross_entropy": loss.detach()}, len(own), 0)

    def after_update(self) -> None:
        """Nothing follows the weights."""

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of a batch."""
        ids: list[str] = self.parts.train.table["sample_id"].to_list()
        return [ids[row] for row in self.sampler.rows(epoch, index)]

    @torch.no_grad()
    def logits(self, pairs: LabelledPairs) -> Tensor:
        """Logits [N, C] of pairs as they are stored."""
        size = self.learning.training.batch_size
        features = encode_all(self.image, self.pixels, pairs, size, self.device, self.frozen)
        return self.head(features.to(self.device)).float().cpu()

    def validate(self) -> dict[str, float]:
        """Weighted loss and macro-accuracy of the validation pairs."""
        pairs = self.parts.validate
        logits, labels = self.logits(pairs), torch.from_numpy(pairs.labels)
        loss = cross_entropy(logits, labels, self.weights_C.cpu())
        called = logits.argmax(1).numpy()
        macro = np.nanmean(recalls(pairs.labels, called, range(self.classes)))
        return {"loss": float(loss), "macro_accuracy": float(macro)}

    def validation_record(self) -> dict[str, Any]:
        """Nothing is kept of it."""
        return {}

    def export(self, folder: Path) -> None:
        """``<part>.npy``: the classes' probabilities [N, C] of the test pairs."""
        self.image.eval()
        for name, pairs in self.parts.test.items():
            np.save(folder / f"{name}.npy", self.logits(pairs).softmax(1).numpy())
