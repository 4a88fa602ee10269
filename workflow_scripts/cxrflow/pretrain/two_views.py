"""Image pretraining: two augmented views of N images (BioViL section 2.2)."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from cxrflow.encoders.frames import Frames
from cxrflow.encoders.trunk import build_trunk
from cxrflow.files.atomic import write_json
from cxrflow.images.augment import Augmentation
from cxrflow.pretrain.objective import Batch, Run, TermsProgram, Views
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.training.samples import SampleTable


class TwoViews(Views):
    """Two views of each image; F features of the trunk."""

    def __init__(self, program: "TwoViewsProgram", images: SplitImages, batch: Batch) -> None:
        super().__init__(batch)
        self.program = program
        self._stored = images.take(batch.own).current

    def pixels(self, *numbers: int) -> Tensor:
        """Views [N * V, C, H, W] of these numbers; those of an image are neighbours."""
        augment, batch = self.program.augmentation, self.batch
        views = [augment(self._stored, batch.seed, batch.epoch, number) for number in numbers]
        channels = self.program.settings.encoder.channels
        pixels = torch.stack(views, dim=1).flatten(0, 1).expand(-1, channels, -1, -1)
        return pixels.contiguous(memory_format=torch.channels_last)

    @cached_property
    def features(self) -> Tensor:
        """[N, V, F] of the first V views, as many as a term reads.

        They go through the trunk as one batch, sharing batch statistics, in which the views of an
        image are neighbours, so that a ghost batch holds all of them.
        """
        encoded = self.program.encoded
        patches = self.program.trunk(Frames(self.pixels(*range(encoded))))
        return patches.pooled.unflatten(0, (-1, encoded))


class TwoViewsProgram(TermsProgram):
    """Trains the trunk on the images of a cohort."""

    def __init__(
        self,
        settings: ImagePretrainingSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        images: Mapping[str, SplitImages],
        start: nn.Module | None = None,
    ) -> None:
        """``start``: a trunk whose weights ours begins with, before a term copies it."""
        self.images = images
        self.augmentation = Augmentation(settings.augmentation)
        self.trunk = build_trunk(settings.encoder)
        if start is not None:
            self.trunk.load_state_dict(start.state_dict())
        super().__init__(settings, run, {"trunk": self.trunk}, samples, settings.ghost_batch)

    def views(self, split: str, batch: Batch) -> TwoViews:
        """Augmented in validation, too, where the views are always the same."""
        return TwoViews(self, self.images[split], batch)

    def export(self, folder: Path) -> None:
        """The trunk alone; what the terms keep is of no further use."""
        from safetensors.torch import save_file

        target = folder / "image"
        target.mkdir()
        write_json(target / "config.json", self.settings.encoder.model_dump(mode="json"))
        weights = {f"encoder.{k}": v.contiguous() for k, v in self.trunk.state_dict().items()}
        save_file(weights, target / "model.safetensors")
