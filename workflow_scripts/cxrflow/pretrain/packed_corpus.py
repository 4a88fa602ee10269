"""Phase II of CXR-BERT: masked language modelling on packed corpora (BioViL section 2.1).

Rows of ``length`` tokens hold several documents; attention stays inside a document and positions
restart with each. Validation is on the report sections of the cohort's validation split.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cxrflow.encoders.cxr_bert import CXRBert, save_text_half
from cxrflow.objectives.masked_language_modelling import masked_language_modelling
from cxrflow.pretrain.inputs import copy_tokenizer, mean_losses, moved
from cxrflow.pretrain.report_text import mlm_divisor, train_only
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.masking import MaskedBatch, WordMasker
from cxrflow.text.packing import PackedCorpus, Plan
from cxrflow.text.report_batch import SECTIONS, ReportTokens, Section
from cxrflow.training.processes import ALONE, Processes
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
        processes: Processes,
    ) -> None:
        self.settings, self.corpus, self.validation = settings, corpus, validation
        self.text, self.masker, self.vocabulary = text, masker, vocabulary
        self.seed, self.device, self.processes = seed, device, processes
        train_only(text, tokens=True, projection=False)
        self.modules = moved({"text": text}, device, processes)
        self.batch_size = min(settings.training.batch_size, corpus.rows)
        self.batches_per_epoch = corpus.rows // self.batch_size
        self._plan: tuple[int, Plan] | None = None
        self._batch: tuple[dict[str, Tensor], MaskedBatch, int] | None = None

    def _rows(self, epoch: int, index: int) -> Plan:
        """Rows of a batch; the plan of the current epoch is kept, as making one takes seconds."""
        if self._plan is None or self._plan[0] != epoch:
            self._plan = epoch, self.corpus.plan(self.seed, epoch)
        return self._plan[1][index * self.batch_size : (index + 1) * self.batch_size]

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Packed rows have no ids of their own: epoch and number."""
        return [f"epoch {epoch}, packed row {key}" for key in self._rows(epoch, index).keys]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """Part of this process's share of a batch; the parts of all processes add up to its loss:
        each divides by the masked tokens (or sequences) of the whole batch."""
        if part == 0 or self._batch is None:
            self._batch = self._masked_batch(epoch, index)
        batch, masked, divisor = self._batch
        count, length = batch["input_ids"].shape
        low, high = count * part // parts, count * (part + 1) // parts
        inside = (masked.positions >= low * length) & (masked.positions < high * length)
        document = batch["document"][low:high]
        hidden = self.text.packed_states(
            masked.input_ids[low:high].to(self.device),
            document,
            batch["position_ids"][low:high].to(self.device),
        )
        logits = self.text.predict_tokens(
            hidden, (masked.positions[inside] - low * length).to(self.device)
        )
        loss = masked_language_modelling(logits, masked.targets[inside].to(self.device), divisor)
        return Losses(loss, {"mlm": loss.detach()}, high - low, int((document >= 0).sum()))

    def _masked_batch(self, epoch: int, index: int) -> tuple[dict[str, Tensor], MaskedBatch, int]:
        rows = self._rows(epoch, index)
        rows = rows[self.processes.share(np.arange(len(rows)))]
        batch = self.corpus.batch(rows)
        masked = self.masker(
            batch["input_ids"], batch["document"] >= 0, batch["keys"], self.seed, epoch
        )
        reduction = self.settings.mlm.reduction
        return (
            batch,
            masked,
            mlm_divisor(reduction, len(masked.targets), len(rows), self.processes),
        )

    def validate(self) -> dict[str, float]:
        """Mean MLM loss on both sections of the validation reports."""
        training = self.settings.training
        size = max(1, training.batch_size // training.accumulate)
        batches = [
            (section, rows[begin : begin + size])
            for section in SECTIONS
            for rows in [np.flatnonzero(self.validation.present[section])]
            for begin in range(0, len(rows), size)
        ]
        own = batches[self.processes.rank :: self.processes.world]
        return mean_losses([self._validation_losses(*batch) for batch in own], self.processes)

    def _validation_losses(self, section: Section, rows: np.ndarray) -> Losses:
        batch = self.validation.batch(rows, section, seed=0, epoch=0, shuffle=False)
        mask = batch["attention_mask"]
        masked = self.masker(batch["input_ids"], mask.bool(), batch["keys"], 0, 0)
        hidden = self.text.hidden_states(masked.input_ids.to(self.device), mask)
        logits = self.text.predict_tokens(hidden, masked.positions.to(self.device))
        divisor = mlm_divisor(self.settings.mlm.reduction, len(masked.targets), len(rows), ALONE)
        loss = masked_language_modelling(logits, masked.targets.to(self.device), divisor)
        return Losses(loss, {"mlm": loss}, len(rows), int(mask.sum()))

    def export(self, folder: Path) -> None:
        """The text half and its tokenizer."""
        save_text_half(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)
