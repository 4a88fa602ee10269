"""The report program: N images, their prior reports and the reports to be written.

BioViL-T Appendix F.1. Image encoder and decoder are trained together, unless the settings leave
the image encoder as it is.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from cxrflow.encoders.decoding import Search, decode
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_half
from cxrflow.encoders.report_decoder import ReportDecoder, save_decoder
from cxrflow.images.augment import Augmentation
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
from cxrflow.pretrain.inputs import copy_tokenizer
from cxrflow.pretrain.objective import Batch, Run, TermsProgram, Views
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import ReportTrainingSettings
from cxrflow.text.report_prompts import ReportPrompts, words_of
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.order import epoch_order
from cxrflow.training.processes import ALONE
from cxrflow.training.program import ParameterRule
from cxrflow.transfer import sent


class ReportViews(Views):
    """The predicted tokens of a batch's reports."""

    def __init__(self, program: "ReportProgram", split: str, batch: Batch) -> None:
        super().__init__(batch)
        self._program, self._split = program, split
        self._texts = program.prompts[split].batch(batch.own)
        self.targets = self._texts.targets.to(program.run.device)  # [T]
        self.predicted = batch.processes.total(len(self.targets))
        self.tokens = int(self._texts.mask.sum())

    @cached_property
    def logits(self) -> Tensor:
        """Of the tokens that are predicted, [T, V]."""
        program, texts, device = self._program, self._texts, self._program.run.device
        patches_BMP = program.patches(self._split, self.batch)
        return program.decoder(
            sent(texts.ids, device), texts.mask, patches_BMP, sent(texts.positions, device)
        )


class ReportProgram(TermsProgram):
    """Trains a decoder and, at ``settings.image_rate``, the image encoder that it looks through.

    ``reports`` are the validation texts that written ones are compared with.
    """

    def __init__(
        self,
        settings: ReportTrainingSettings,
        run: Run,
        ids: Sequence[str],
        images: Mapping[str, SplitImages],
        prompts: Mapping[str, ReportPrompts],
        reports: Sequence[str],
        image: ImageEncoder,
        decoder: ReportDecoder,
        tokenizer: Path,
    ) -> None:
        self.images, self.prompts, self.image, self.decoder = images, prompts, image, decoder
        self.tokenizer = tokenizer
        self.augmentation = Augmentation(settings.augmentation)
        self.steady = not images["train"].have_priors
        trained = {"image": image} if settings.image_rate else {}
        if trained:
            self.parameter_rules = [ParameterRule("image.*", rate=settings.image_rate)]
        super().__init__(
            settings,
            run,
            {"decoder": decoder, **trained},
            ids,
            len(images["validate"]),
            settings.ghost_batch,
        )
        if not trained:
            image.requires_grad_(False).to(run.device).eval()
        count = min(settings.written_validation, len(reports))
        self._written = np.sort(epoch_order(len(reports), 0, 0)[:count])
        self._references = [words_of(reports[row]) for row in self._written]

    def views(self, split: str, batch: Batch) -> ReportViews:
        """What is predicted of a batch."""
        return ReportViews(self, split, batch)

    def patches(self, split: str, batch: Batch) -> Tensor:
        """Projected patches [B, M, P] of this process's images, augmented in training."""
        frames = self.images[split].take(batch.own)
        if split == "train":
            seen = frames.each(lambda one: self.augmentation(one, batch.seed, batch.epoch))
        else:
            seen = frames.each(self.augmentation.centre)
        return self.image(seen).unnormalised_patches.flatten(1, 2)

    def validate(self) -> dict[str, float]:
        """The loss, and how alike reports are that the decoder writes by itself."""
        values = super().validate()
        if not len(self._written):
            return values
        processes = self.run.processes
        own = self._written[processes.rank :: processes.world]
        written = dict(pair for part in processes.collect(self._write(own)) for pair in part)
        hypotheses = [words_of(written[int(row)]) for row in self._written]
        counts = bleu_counts(self._references, hypotheses)
        scores = {f"bleu_{order}": float(bleu(counts, order)) for order in (2, 4)}
        return {**values, **scores, "rouge_l": float(rouge_l(self._references, hypotheses).mean())}

    def _write(self, rows: np.ndarray) -> list[tuple[int, str]]:
        """The reports of these validation studies, by row."""
        prompts, tokenizer = self.prompts["validate"], read_tokenizer(self.tokenizer)
        search = Search(self.settings.decoder.report_length, prompts.end)
        found: list[tuple[int, str]] = []
        size = self.settings.training.batch_size
        for begin in range(0, len(rows), size):
            some = rows[begin : begin + size]
            patches_BMP = self.patches("validate", Batch(some, 0, 0, ALONE))
            ids = decode(self.decoder, [prompts.prompts[row] for row in some], patches_BMP, search)
            found += zip(some.tolist(), tokenizer.decode_batch(ids), strict=True)
        return found

    def export(self, folder: Path) -> None:
        """Decoder, image half and tokenizer."""
        save_decoder(self.decoder, folder)
        save_image_half(self.image, folder)
        copy_tokenizer(self.tokenizer, folder)
