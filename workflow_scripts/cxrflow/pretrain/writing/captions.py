"""The caption program: N images and the reports to be written of them (ConVIRT section 4.3)."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.captioning import Captioner, patches_of, save_captioner
from cxrflow.encoders.decoding import Search
from cxrflow.encoders.image_encoder import Frames
from cxrflow.metrics.cider import Cider
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
from cxrflow.pretrain.writing.program import WritingProgram
from cxrflow.text.report_prompts import ReportBatch
from cxrflow.text.words import words_of


class CaptionProgram(WritingProgram):
    """Trains a captioner and the trunk that it looks through."""

    decoder: Captioner

    def read(self, prompts: ReportBatch, patches_BMF: Tensor) -> tuple[Tensor, Tensor | None]:
        """The captioner's."""
        device = self.run.device
        return self.decoder(sent(prompts.ids, device), patches_BMF, sent(prompts.positions, device))

    def patches_seen(self, frames: Frames) -> Tensor:
        """The trunk's."""
        return patches_of(self.image.encoder(frames).grid)

    def write(
        self, prompts: Sequence[Sequence[int]], patches_BMF: Tensor, search: Search
    ) -> list[list[int]]:
        """The captioner's."""
        return self.decoder.write(prompts, patches_BMF, search)

    @cached_property
    def cider(self) -> Cider:
        """CIDEr, which counts how frequent n-grams are in the training's reports."""
        studies = dict(zip(self.samples["train"].ids, self.texts.reports["train"], strict=True))
        return Cider([words_of(text) for text in studies.values()])

    def likeness(
        self, references: list[list[str]], hypotheses: list[list[str]]
    ) -> dict[str, float]:
        """CIDEr, CIDEr-D, BLEU-4 and ROUGE-L."""
        scores = {
            "cider": self.cider.cider(references, hypotheses).mean(),
            "cider_d": self.cider.cider_d(references, hypotheses).mean(),
            "bleu_4": bleu(bleu_counts(references, hypotheses), 4),
            "rouge_l": rouge_l(references, hypotheses).mean(),
        }
        return {name: float(score) for name, score in scores.items()}

    def export(self, folder: Path) -> None:
        """Captioner, trunk and tokenizer."""
        save_captioner(self.decoder, folder)
        super().export(folder)
