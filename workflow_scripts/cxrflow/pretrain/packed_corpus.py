"""Phase II of CXR-BERT: masked language modelling on packed corpora (BioViL section 2.1).

Rows of ``length`` tokens hold several documents; attention stays inside a document and positions
restart with each. Validation is on the report sections of the cohort's validation split.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from cxrflow.encoders.cxr_bert import CXRBert, block_diagonal_mask
from cxrflow.encoders.model import save_text_half
from cxrflow.objectives.masked_language_modelling import masked_language_modelling
from cxrflow.pretrain.inputs import copy_tokenizer, mean_losses
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.masking import WordMasker
from cxrflow.text.packing import PackedCorpus
from cxrflow.text.report_batch import ReportTokens
from cxrflow.training.program import Losses


class PackedCorpusProgram:
    """MLM on rows of a :class:`PackedCorpus`; B rows, L tokens."""

    def __init__(
        self,
        settings: TextPretrainingSettings,
        corpus: PackedCorpus,
        validation: ReportTokens,
        text: CXRBert,
        masker: WordMasker,
        vocabulary: Path,
        seed: int,
        device: torch.device,
    ) -> None:
        self.settings, self.corpus, self.validation = settings, corpus, validation
        self.text, self.masker, self.vocabulary = text, masker, vocabulary
        self.seed, self.device = seed, device
        self.modules: dict[str, nn.Module] = {"text": text.to(device)}
        self.batches_per_epoch = len(corpus) // min(settings.training.batch_size, len(corpus))

    def _rows(self, epoch: int, index: int) -> np.ndarray:
        size = min(self.settings.training.batch_size, len(self.corpus))
        return self.corpus.plan(self.seed, epoch)[index * size : (index + 1) * size]

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        return [f"row {row}" for row in self._rows(epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        rows = np.array_split(self._rows(epoch, index), parts)[part]
        batch = self.corpus.batch(rows)
        input_ids, document = batch["input_ids"], batch["document"]
        masked = self.masker(input_ids, document >= 0, torch.as_tensor(rows), self.seed, epoch)
        hidden = self.text.hidden_states(
            masked.input_ids.to(self.device),
            block_diagonal_mask(document.to(self.device)),
            batch["position_ids"].to(self.device),
        )
        logits = self.text.predict_tokens(hidden, masked.positions.to(self.device))
        loss = masked_language_modelling(
            logits, masked.targets.to(self.device), len(rows), self.settings.mlm.reduction
        )
        tokens = int((document >= 0).sum())
        return Losses(loss / parts, {"mlm": loss.detach() / parts}, len(rows), tokens)

    def validate(self) -> dict[str, float]:
        found = []
        size = self.settings.training.batch_size
        for section in ("findings", "impression"):
            rows = self.validation.rows_with(section)
            for begin in range(0, len(rows), size):
                found.append(self._validation_losses(section, rows[begin : begin + size]))
        return mean_losses(found)

    def _validation_losses(self, section: str, rows: np.ndarray) -> Losses:
        batch = self.validation.batch(rows, section, seed=0, epoch=0, shuffle=False)
        mask = batch["attention_mask"]
        masked = self.masker(batch["input_ids"], mask.bool(), torch.as_tensor(rows), 0, 0)
        hidden = self.text.hidden_states(
            masked.input_ids.to(self.device), mask.to(self.device)
        )
        logits = self.text.predict_tokens(hidden, masked.positions.to(self.device))
        loss = masked_language_modelling(
            logits, masked.targets.to(self.device), len(rows), self.settings.mlm.reduction
        )
        return Losses(loss, {"mlm": loss}, len(rows), int(mask.sum()))

    def export(self, folder: Path) -> None:
        save_text_half(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)
