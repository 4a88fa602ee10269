"""The caption program: N images and the reports to be written of them (ConVIRT section 4.3).

Trunk and captioner are trained together.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from cxrflow.drops import Drop
from cxrflow.encoders.captioning import Caption, Captioner, patches_of, save_captioner
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_half
from cxrflow.errors import InputError
from cxrflow.images.augment import Augmentation
from cxrflow.images.store import PixelStore
from cxrflow.metrics.cider import Cider
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
from cxrflow.pretrain.inputs import Pairs, copy_tokenizer
from cxrflow.pretrain.objective import Batch, Run, TermsProgram, Views
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import CaptionTrainingSettings
from cxrflow.text.report_prompts import ReportPrompts, report_texts, words_of
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.order import epoch_order
from cxrflow.training.processes import ALONE
from cxrflow.training.program import ParameterRule
from cxrflow.transfer import sent


class CaptionViews(Views):
    """The predicted tokens of a batch's reports."""

    def __init__(self, program: "CaptionProgram", split: str, batch: Batch) -> None:
        super().__init__(batch)
        self._program, self._split = program, split
        self._texts = program.prompts[split].batch(batch.own)
        self.targets = self._texts.targets.to(program.run.device)  # [T]
        self.predicted = batch.processes.total(len(self.targets))
        self.tokens = int(self._texts.mask.sum())

    @cached_property
    def written(self) -> Caption:
        """What the captioner gives."""
        program, texts, device = self._program, self._texts, self._program.run.device
        patches_BMF = program.patches(self._split, self.batch)
        return program.decoder(sent(texts.ids, device), patches_BMF, sent(texts.positions, device))

    @property
    def logits(self) -> Tensor:
        """Of the tokens that are predicted, [T, V]."""
        return self.written.logits


class CaptionProgram(TermsProgram):
    """Trains a captioner and the trunk that it looks through.

    ``reports`` are the validation texts that written ones are compared with, ``documents`` the
    training's, in which CIDEr counts how frequent n-grams are.
    """

    def __init__(
        self,
        settings: CaptionTrainingSettings,
        run: Run,
        ids: Sequence[str],
        images: Mapping[str, SplitImages],
        prompts: Mapping[str, ReportPrompts],
        reports: Sequence[str],
        documents: Sequence[str],
        image: ImageEncoder,
        decoder: Captioner,
        tokenizer: Path,
    ) -> None:
        self.images, self.prompts, self.image, self.decoder = images, prompts, image, decoder
        self.tokenizer = tokenizer
        self.augmentation = Augmentation(settings.augmentation)
        self.parameter_rules = [ParameterRule("image.*", rate=settings.image_rate)]
        modules = {"decoder": decoder, "image": image}
        super().__init__(settings, run, modules, ids, len(images["validate"]), settings.ghost_batch)
        count = min(settings.written_validation, len(reports))
        self._written = np.sort(epoch_order(len(reports), 0, 0)[:count])
        self._references = [words_of(reports[row]) for row in self._written]
        self._cider = Cider([words_of(text) for text in documents] if count else [])

    def views(self, split: str, batch: Batch) -> CaptionViews:
        """What is predicted of a batch."""
        return CaptionViews(self, split, batch)

    def patches(self, split: str, batch: Batch) -> Tensor:
        """The trunk's patches [B, M, F] of this process's images, augmented in training."""
        frames = self.images[split].take(batch.own)
        if split == "train":
            seen = frames.each(lambda one: self.augmentation(one, batch.seed, batch.epoch))
        else:
            seen = frames.each(self.augmentation.centre)
        return patches_of(self.image.encoder(seen).grid)

    def validate(self) -> dict[str, float]:
        """The loss, and how alike reports are that the captioner writes by itself."""
        values = super().validate()
        if not len(self._written):
            return values
        processes = self.run.processes
        own = self._written[processes.rank :: processes.world]
        written = dict(pair for part in processes.collect(self._write(own)) for pair in part)
        both = self._references, [words_of(written[int(row)]) for row in self._written]
        scores = {
            "cider": self._cider.cider(*both).mean(),
            "cider_d": self._cider.cider_d(*both).mean(),
            "bleu_4": bleu(bleu_counts(*both), 4),
            "rouge_l": rouge_l(*both).mean(),
        }
        return values | {name: float(score) for name, score in scores.items()}

    def _write(self, rows: np.ndarray) -> list[tuple[int, str]]:
        """The reports of these validation images, by row."""
        prompts, tokenizer = self.prompts["validate"], read_tokenizer(self.tokenizer)
        search = Search(self.settings.decoder.report_length, prompts.end)
        found: list[tuple[int, str]] = []
        size = self.settings.training.batch_size
        for begin in range(0, len(rows), size):
            some = rows[begin : begin + size]
            patches_BMF = self.patches("validate", Batch(some, 0, 0, ALONE))
            first = [prompts.prompts[row] for row in some]
            ids = self.decoder.write(first, patches_BMF, search)
            found += zip(some.tolist(), tokenizer.decode_batch(ids), strict=True)
        return found

    def export(self, folder: Path) -> None:
        """Captioner, trunk and tokenizer."""
        save_captioner(self.decoder, folder)
        save_image_half(self.image, folder)
        copy_tokenizer(self.tokenizer, folder)


def rows_with_text(
    pairs: Pairs, split: str, store: PixelStore, settings: CaptionTrainingSettings
) -> pd.DataFrame:
    """The rows of a split with a stored image, and text in at least one of the sections."""
    rows = pairs.split(split, (), store, settings.max_dropped_share)
    sections = settings.decoder.sections
    there = np.array([bool(words_of(text)) for text in report_texts(rows, sections)])
    reason = f"no text in {' or '.join(sections)}"
    if not there.any():
        raise InputError(f"{pairs.path}: split '{split}': {reason} of any row")
    drop = Drop.of(reason, rows["study_id"][~there], part=split)
    pairs.dropped += [drop] if drop.count else []
    return rows[there].reset_index(drop=True)
