"""Image pretraining: two augmented views of N images (BioViL section 2.2)."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from cxrflow.encoders.image_encoder import Frames, Patches, build_trunk
from cxrflow.encoders.weights import save_weights
from cxrflow.images.augment import Augmentation
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.objective import Batch, Computed, TermsProgram, Views
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.pretrain.terms.base_settings import Needs
from cxrflow.training.samples import SampleTable


class TwoViews(Views):
    """Augmented views of each image."""

    def __init__(self, program: "TwoViewsProgram", images: SplitImages, batch: Batch) -> None:
        super().__init__(batch)
        self.program = program
        self._stored = images.take(batch.own).current
        self.images = Computed(self._patches)
        self._encoder_input: Frames[Tensor] | None = None  # until it is encoded

    def prepare(self, needs: Needs) -> None:
        if needs.images:
            self._encoder_input = self._frames(range(needs.images))

    def pixels(self, number: int) -> Frames[Tensor]:
        """View ``number`` of each image, with as many channels as the trunk takes."""
        return self._frames([number])

    def _frames(self, numbers: Sequence[int]) -> Frames[Tensor]:
        """Views of these numbers, [N * V, C, H, W]; those of an image are neighbours."""
        augment, (_, seed, epoch, *_) = self.program.augmentation, self.batch
        views = [augment(self._stored, seed, epoch, number) for number in numbers]
        channels = self.program.settings.encoder.channels
        pixels = torch.stack(views, dim=1).flatten(0, 1).expand(-1, channels, -1, -1)
        return Frames(pixels.contiguous(memory_format=torch.channels_last))

    def _patches(self, number: int) -> Patches:
        grid, pooled, _ = self._encoded
        count = self.program.needs.images
        return Patches(grid[number::count], pooled[number::count])

    @cached_property
    def _encoded(self) -> Patches:
        """All views after the trunk.

        They go through it as one batch, sharing batch statistics, in which the views of an image
        are neighbours, so that a ghost batch holds all of them.
        """
        frames, self._encoder_input = self._encoder_input, None
        return self.program.trunk(frames or self._frames(range(self.program.needs.images)))


class TwoViewsProgram(TermsProgram):
    """Trains the trunk on the images of a cohort."""

    stacked = True

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
        weights = {f"encoder.{name}": value for name, value in self.trunk.state_dict().items()}
        save_weights(folder / "image", self.settings.encoder.model_dump(mode="json"), weights)
