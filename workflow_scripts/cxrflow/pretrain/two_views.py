"""The SimCLR program: two augmented views of N images, NT-Xent between them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from cxrflow.encoders.image_encoder import Trunk
from cxrflow.files import write_json
from cxrflow.images.augment import Augmentation
from cxrflow.images.store import PixelStore
from cxrflow.objectives.simclr import nt_xent
from cxrflow.pretrain.inputs import mean_losses, moved, require_whole_ghosts
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.training.order import batch_rows, batches_per_epoch, contrastive_batches
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses


class Head(nn.Module):
    """SimCLR's projection: linear, batch normalisation, ReLU, linear."""

    def __init__(self, features: int, hidden: int, output: int) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(features, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, output, bias=False),
        )

    def forward(self, features_NF: Tensor) -> Tensor:
        return self.model(features_NF)


class TwoViewsProgram:
    """NT-Xent over the training images of a cohort; N images, F trunk features."""

    def __init__(
        self,
        settings: ImagePretrainingSettings,
        store: PixelStore,
        train: pd.DataFrame,
        validation: pd.DataFrame,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.settings, self.seed, self.device = settings, seed, device
        self.processes = processes
        require_whole_ghosts(settings.training.batch_size, settings.ghost_batch, processes)
        self.ids = train["image_id"].tolist()
        self.images = {
            "train": SplitImages(store, train["image_id"], device),
            "validate": SplitImages(store, validation["image_id"], device),
        }
        self.augmentation = Augmentation(settings.augmentation)
        self.trunk = Trunk(settings.encoder)
        self.head = Head(self.trunk.encoder.features, settings.head_hidden, settings.head_output)
        ghost = None if settings.ghost_batch is None else 2 * settings.ghost_batch  # views
        self.modules = moved({"trunk": self.trunk, "head": self.head}, device, processes, ghost)
        self.batches_per_epoch = batches_per_epoch(len(train), settings.training.batch_size)

    def _batch(self, epoch: int, index: int) -> np.ndarray:
        size = self.settings.training.batch_size
        return batch_rows(len(self.ids), size, self.seed, epoch, index)

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Image ids of a batch."""
        return [self.ids[row] for row in self._batch(epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """NT-Xent of a batch."""
        batch = self._batch(epoch, index)
        return self._objective("train", batch, self.seed, epoch, self.processes)

    def _objective(
        self, split: str, batch: np.ndarray, seed: int, epoch: int, processes: Processes
    ) -> Losses:
        """This process's share of a batch.

        Both views go through the trunk as one batch, sharing batch statistics. The views of an
        image are neighbours there, so that a ghost batch holds both.
        """
        rows = processes.share(batch)
        images, keys = self.images[split].take(rows)
        views = torch.stack(
            [self.augmentation(images, keys, seed, epoch, view) for view in (0, 1)], dim=1
        ).flatten(0, 1)
        views = views.expand(-1, self.settings.encoder.channels, -1, -1)
        features = self.trunk(views.contiguous(memory_format=torch.channels_last))
        projected = self.head(features.mean((2, 3))).unflatten(0, (-1, 2))
        (gathered,), own = processes.gather(len(batch), projected)
        loss = nt_xent(gathered[:, 0], gathered[:, 1], self.settings.temperature, own)
        return Losses(loss, {"nt_xent": loss.detach()}, len(rows), 0)

    def validate(self) -> dict[str, float]:
        """Mean NT-Xent on the validation images, with fixed views."""
        size = self.settings.training.batch_size
        batches = contrastive_batches(len(self.images["validate"]), size)
        own = batches[self.processes.rank :: self.processes.world]
        found = [self._objective("validate", batch, 0, 0, ALONE) for batch in own]
        return mean_losses(found, self.processes)

    def export(self, folder: Path) -> None:
        """The trunk alone; the SimCLR head is of no further use."""
        from safetensors.torch import save_file

        target = folder / "image"
        target.mkdir()
        write_json(target / "config.json", self.settings.encoder.model_dump(mode="json"))
        weights = {f"encoder.{k}": v.contiguous() for k, v in self.trunk.state_dict().items()}
        save_file(weights, target / "model.safetensors")
