"""Training of a head on pairs of images, with or without the encoder (BioViL-T Appendix F.3).

A program of the training engine, so that an interrupted run resumes. It exports the scores of the
test pairs, not a model.

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
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs, encode, encode_all
from cxrflow.benchmarks.temporal.settings import FewShot, FineTuning
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.images.augment import Augmentation
from cxrflow.metrics.multiclass import recalls
from cxrflow.training.program import Losses, ParameterRule, Program
from cxrflow.training.sampler import UniformSampler

# "Positional encodings and missing-image embeddings are exempt from weight decay" (F.3).
WITHOUT_DECAY = ("type_embed", "missing_previous_emb")


class PairSplits(NamedTuple):
    """Pairs of a finding; ``test`` by whose prior images they have, the patient's or another's."""

    train: ImagePairs
    validate: ImagePairs
    test: dict[str, ImagePairs]


def class_weights(labels: NDArray[np.int64], classes: int) -> Tensor:
    """Return inverse class frequencies [C] whose mean over the samples is 1; 0 if none has it."""
    counts = np.bincount(labels, minlength=classes)
    present = counts > 0
    weights = np.zeros(classes)
    weights[present] = len(labels) / (present.sum() * counts[present])
    return torch.from_numpy(weights).float()


def multilayer_head(features: int, hidden: int, classes: int) -> nn.Sequential:
    """Return two linear layers with batch normalisation and ReLU between them."""
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, classes),
    )


def linear_head(starts_CP: Tensor) -> nn.Linear:
    """Return a linear layer initialised with the classes' embeddings, its bias at 0."""
    head = nn.Linear(starts_CP.shape[1], len(starts_CP))
    with torch.no_grad():
        head.weight.copy_(starts_CP)
        head.bias.zero_()
    return head


class HeadTrainingProgram(Program):
    """Weighted cross-entropy of augmented pairs; the encoder of a few-shot head is frozen."""

    def __init__(
        self,
        image: ImageEncoder,
        head: nn.Module,
        splits: PairSplits,
        pixels: Pixels,
        classes: int,
        learning: FineTuning | FewShot,
        seed: int,
        device: torch.device,
    ) -> None:
        self.image, self.head, self.splits, self.pixels = image, head, splits, pixels
        self.learning, self.seed, self.device = learning, seed, device
        self.frozen = isinstance(learning, FewShot)
        self.image.to(device).eval().requires_grad_(not self.frozen)
        self.modules: dict[str, nn.Module] = {"head": head.to(device)}
        if not self.frozen:
            # The head reads the trunk's features, so the projection is not trained.
            self.modules["image"] = image.encoder
        names = [name for name, _ in image.encoder.named_parameters(prefix="image")]
        self.parameter_rules: Sequence[ParameterRule] = [
            ParameterRule(name, decay=False)
            for name in names
            if not self.frozen and name.endswith(WITHOUT_DECAY)
        ]
        training = learning.training
        self.sampler = UniformSampler(len(splits.train), training.batch_size, seed)
        self.batches_per_epoch = self.sampler.batches_per_epoch
        self.classes = classes
        self.weights_C = class_weights(splits.train.labels, classes).to(device)
        self.augmentation = Augmentation(learning.augmentation)

    def losses(self, batch: tuple[int, int], micro_batch: int, micro_batches: int) -> Losses:
        """Return the summand of part ``micro_batch`` of a batch in the batch's weighted mean."""
        epoch, index = batch
        rows = self.sampler.rows(epoch, index)
        train = self.splits.train
        total = self.weights_C[torch.from_numpy(train.labels[rows]).to(self.device)].sum()
        pairs = train.rows(np.array_split(rows, micro_batches)[micro_batch])
        frames = read_frames(
            self.pixels,
            pairs.current,
            pairs.prior,
            lambda stored: self.augmentation(stored, self.seed, epoch),
        )
        frames = frames.each(lambda images: images.to(self.device))
        with torch.set_grad_enabled(not self.frozen):
            features = encode(self.image, frames, projected=self.frozen)
        logits = self.head(features.float()).float()
        labels = torch.from_numpy(pairs.labels).to(self.device)
        loss = cross_entropy(logits, labels, self.weights_C, reduction="sum") / total
        return Losses(loss, {"cross_entropy": loss.detach()}, len(pairs), 0)

    def after_update(self) -> None:
        """No state depends on the weights."""

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Return the sample ids of a batch."""
        ids: list[str] = self.splits.train.table["sample_id"].to_list()
        return [ids[row] for row in self.sampler.rows(epoch, index)]

    @torch.no_grad()
    def logits(self, pairs: ImagePairs) -> Tensor:
        """Return logits [N, C] of pairs, not augmented."""
        size = self.learning.training.batch_size
        features = encode_all(self.image, self.pixels, pairs, size, self.device, self.frozen)
        return self.head(features.to(self.device)).float().cpu()

    def validate(self) -> dict[str, float]:
        """Return the weighted loss and the macro-accuracy of the validation pairs."""
        pairs = self.splits.validate
        logits, labels = self.logits(pairs), torch.from_numpy(pairs.labels)
        loss = cross_entropy(logits, labels, self.weights_C.cpu())
        answers = logits.argmax(1).numpy()
        macro = np.nanmean(recalls(pairs.labels, answers, range(self.classes)))
        return {"loss": float(loss), "macro_accuracy": float(macro)}

    def validation_record(self) -> dict[str, Any]:
        """Validations leave no record."""
        return {}

    def export(self, folder: Path) -> None:
        """Write the class probabilities [N, C] of each set of test pairs to ``<name>.npy``."""
        self.image.eval()
        for name, pairs in self.splits.test.items():
            np.save(folder / f"{name}.npy", self.logits(pairs).softmax(1).numpy())
