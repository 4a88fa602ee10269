"""The report program: N images, their prior reports and the reports to be written.

BioViL-T Appendix F.1.
"""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.decoding import Search, decode
from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.report_decoder import ReportDecoder, save_decoder
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
from cxrflow.pretrain.writing.program import WritingProgram
from cxrflow.text.report_prompts import ReportBatch


class ReportProgram(WritingProgram):
    """Trains a decoder and, unless the settings leave it as it is, the image encoder."""

    decoder: ReportDecoder

    def read(self, prompts: ReportBatch, patches_BMF: Tensor) -> tuple[Tensor, Tensor | None]:
        """The decoder's."""
        ids, positions = (
            sent(tensor, self.run.device) for tensor in (prompts.ids, prompts.positions)
        )
        return self.decoder(ids, prompts.mask, patches_BMF, positions), None

    def patches_seen(self, frames: Frames) -> Tensor:
        """The projected ones."""
        return self.image(frames).unnormalised_patches.flatten(1, 2)

    def write(
        self, prompts: Sequence[Sequence[int]], patches_BMF: Tensor, search: Search
    ) -> list[list[int]]:
        """The decoder's."""
        return decode(self.decoder, prompts, patches_BMF, search)

    def likeness(
        self, references: list[list[str]], hypotheses: list[list[str]]
    ) -> dict[str, float]:
        """BLEU-2, BLEU-4 and ROUGE-L."""
        counts = bleu_counts(references, hypotheses)
        scores = {f"bleu_{order}": float(bleu(counts, order)) for order in (2, 4)}
        return {**scores, "rouge_l": float(rouge_l(references, hypotheses).mean())}

    def export(self, folder: Path) -> None:
        """Decoder, image encoder and tokenizer."""
        save_decoder(self.decoder, folder)
        super().export(folder)
