"""The base of programs that learn to write reports: N images and the report of each.

Trunk and writer are trained together, and validation compares what the writer says by itself.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, save_image_encoder
from cxrflow.images.augment import Augmentation
from cxrflow.pretrain.inputs import Run, copy_tokenizer
from cxrflow.pretrain.objective import Batch, TermsProgram, Views, WrittenText
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import CaptionTrainingSettings, ReportTrainingSettings
from cxrflow.pretrain.terms.base_settings import Needs
from cxrflow.text.report_prompts import ReportBatch, ReportPrompts
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.text.words import words_of
from cxrflow.training.processes import ALONE
from cxrflow.training.program import ParameterRule
from cxrflow.training.sampler import epoch_order
from cxrflow.training.samples import SampleTable


class ReportTexts(NamedTuple):
    """The reports to be written, by split as the images are."""

    reports: Mapping[str, Sequence[str]]
    prompts: Mapping[str, ReportPrompts]
    tokenizer: Path
    reader: Path | None = None  # folder of a text encoder, for terms that read what is written


class WrittenViews(Views):
    """The predicted tokens of a batch's reports.

    A term that lets the decoder write by itself reads ``program``, ``split`` and ``patches_BMF``.
    """

    def __init__(self, program: "WritingProgram", split: str, batch: Batch) -> None:
        super().__init__(batch)
        self.program, self.split = program, split
        self._prompts = program.texts.prompts[split].batch(batch.own)
        self._targets = sent(self._prompts.targets, program.run.device)
        self.tokens = int(self._prompts.mask.sum())

    @cached_property
    def written(self) -> WrittenText:
        """The writer's logits of the next token at every place of the reports."""
        return self._read(self.patches_BMF)

    def written_beside(self, images: Tensor) -> WrittenText:
        """The same, beside the images in another order."""
        return self._read(self.patches_BMF[images.to(self.patches_BMF.device)])

    def prepare(self, needs: Needs) -> None:
        _ = self._frames

    @cached_property
    def _frames(self) -> Frames[Tensor]:
        return self.program.frames(self.split, self.batch)

    @cached_property
    def patches_BMF(self) -> Tensor:
        """What the writer looks at."""
        return self.program.patches_seen(self._frames)

    @cached_property
    def _predicted(self) -> int:
        """Tokens to predict, of all processes."""
        return self.batch.processes.totals(len(self._targets))[0]

    def _read(self, patches_BMF: Tensor) -> WrittenText:
        logits_TV, attended = self.program.read(self._prompts, patches_BMF)
        reports_T = self._prompts.positions // self._prompts.ids.shape[1]
        return WrittenText(logits_TV, self._targets, self._predicted, reports_T, attended)


class WritingProgram(TermsProgram):
    """Trains a writer and, at ``settings.image_rate``, the image encoder that it looks through."""

    decoder: Any

    def __init__(
        self,
        settings: CaptionTrainingSettings | ReportTrainingSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        images: Mapping[str, SplitImages],
        texts: ReportTexts,
        image: ImageEncoder,
        decoder: nn.Module,
    ) -> None:
        self.images, self.texts, self.image, self.decoder = images, texts, image, decoder
        self.augmentation = Augmentation(settings.augmentation)
        self.steady = not images["train"].have_priors
        image.encoder.freeze_pooling()  # a writer reads patches
        if image.projector is not None:
            image.projector.freeze_global()
        modules: dict[str, nn.Module] = {"decoder": decoder}
        if settings.image_rate:
            modules["image"] = image
        super().__init__(settings, run, modules, samples, settings.ghost_batch)
        if settings.image_rate:
            of_image = ParameterRule("image.*", rate=settings.image_rate)
            self.parameter_rules = [*self.parameter_rules, of_image]
        else:
            image.requires_grad_(False).to(run.device).eval()
        reports = texts.reports["validate"]
        count = min(settings.written_validation, len(reports))
        self.compared = np.sort(epoch_order(len(reports), 0, 0)[:count])  # rows of validation
        self._references = [words_of(reports[row]) for row in self.compared]

    def views(self, split: str, batch: Batch) -> WrittenViews:
        """The predicted tokens of a batch."""
        return WrittenViews(self, split, batch)

    @abstractmethod
    def read(self, prompts: ReportBatch, patches_BMF: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits [T, V] of the tokens to predict, and where a captioner looked."""

    @abstractmethod
    def patches_seen(self, frames: Frames) -> Tensor:
        """The patches [B, M, F] that the writer looks at."""

    @abstractmethod
    def write(
        self, prompts: Sequence[Sequence[int]], patches_BMF: Tensor, search: Search
    ) -> list[list[int]]:
        """The ids that follow each of B prompts, without the end."""

    @abstractmethod
    def likeness(
        self, references: list[list[str]], hypotheses: list[list[str]]
    ) -> dict[str, float]:
        """How alike what was written is to the reports, both in words, by several metrics."""

    def frames(self, split: str, batch: Batch) -> Frames[Tensor]:
        """This process's images, augmented in training."""
        stored, (_, seed, epoch, *_) = self.images[split].take(batch.own), batch
        if split == "train":
            return stored.each(lambda images: self.augmentation(images, seed, epoch))
        return stored.each(self.augmentation.centre)

    def validate(self) -> dict[str, float]:
        """The loss, and how alike reports are that the writer says by itself."""
        values = super().validate()
        if not len(self.compared):
            return values
        processes = self.run.processes
        rows = self.compared[processes.rank :: processes.world]
        written = dict(
            pair
            for reports_of_process in processes.collect(self._write(rows))
            for pair in reports_of_process
        )
        hypotheses = [words_of(written[int(row)]) for row in self.compared]
        return values | self.likeness(self._references, hypotheses)

    def _write(self, rows: np.ndarray) -> list[tuple[int, str]]:
        """The reports of these validation images, by row."""
        prompts = self.texts.prompts["validate"]
        tokenizer = read_tokenizer(self.texts.tokenizer)
        search = Search(self.settings.decoder.report_length, prompts.end)
        reports_written: list[tuple[int, str]] = []
        size = self.settings.training.batch_size
        for begin in range(0, len(rows), size):
            some = rows[begin : begin + size]
            patches_BMF = self.patches_seen(self.frames("validate", Batch(some, 0, 0, ALONE)))
            ids = self.write([prompts.prompts[row] for row in some], patches_BMF, search)
            reports_written += zip(some.tolist(), tokenizer.decode_batch(ids), strict=True)
        return reports_written

    def export(self, folder: Path) -> None:
        """The image encoder and the tokenizer."""
        save_image_encoder(self.image, folder)
        copy_tokenizer(self.texts.tokenizer, folder)
