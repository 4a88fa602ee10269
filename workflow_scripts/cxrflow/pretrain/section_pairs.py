"""Phase III of CXR-BERT: section matching and masked language modelling on reports.

BioViL section 2.1: L_III = L_RSM + lambda_MLM L_MLM on FINDINGS-IMPRESSION pairs with sentence
shuffling and 25 % dropout. Table 4 also has a phase III without section matching: MLM alone.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from cxrflow.encoders.cxr_bert import CXRBert, save_text_half
from cxrflow.objectives.section_matching import section_matching
from cxrflow.pretrain.inputs import copy_tokenizer, mean_losses, moved
from cxrflow.pretrain.report_text import encode_reports, train_only
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.masking import WordMasker
from cxrflow.text.report_batch import SECTIONS, ReportTokens
from cxrflow.training.order import batch_rows, batches_per_epoch, contrastive_batches
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses


class SectionPairsProgram:
    """RSM + MLM over N reports that have both sections."""

    def __init__(
        self,
        settings: TextPretrainingSettings,
        train: ReportTokens,
        validation: ReportTokens,
        ids: Sequence[str],
        text: CXRBert,
        masker: WordMasker,
        vocabulary: Path,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self.settings, self.train, self.validation = settings, train, validation
        self.text, self.masker, self.vocabulary = text, masker, vocabulary
        self.seed, self.device, self.ids = seed, device, ids
        self.processes = processes
        self.matching = settings.rsm.weight > 0
        # Without matching nothing reads the intact text.
        alone = settings.mlm.model_copy(update={"forward": "shared"})
        self.mlm = settings.mlm if self.matching else alone
        train_only(text, tokens=settings.mlm.weight > 0, projection=self.matching)
        self.modules = moved({"text": text}, device, processes)
        self.batches_per_epoch = batches_per_epoch(len(train), settings.training.batch_size)

    def _rows(self, epoch: int, index: int) -> np.ndarray:
        size = self.settings.training.batch_size
        return batch_rows(len(self.train), size, self.seed, epoch, index)

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Study ids of a batch."""
        return [self.ids[row] for row in self._rows(epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """RSM and MLM of a batch."""
        rows = self._rows(epoch, index)
        shuffle = self.settings.sentence_shuffling
        return self._objective(self.train, rows, self.seed, epoch, shuffle, self.processes)

    def _objective(
        self,
        reports: ReportTokens,
        rows: np.ndarray,
        seed: int,
        epoch: int,
        shuffle: bool,
        processes: Processes,
    ) -> Losses:
        """This process's share of a batch of these rows."""
        settings = self.settings
        findings, impression = (
            encode_reports(
                self.text,
                self.masker,
                self.mlm,
                reports,
                rows,
                section,
                seed,
                epoch,
                shuffle,
                self.device,
                processes,
            )
            for section in SECTIONS
        )
        weighted, terms = [], {}
        if self.matching:
            (first, second), own = processes.gather(
                len(rows), findings.projected, impression.projected
            )
            rsm = section_matching(
                first, second, settings.rsm.temperature, settings.rsm.normalised, own
            )
            weighted.append(settings.rsm.weight * rsm)
            terms["rsm"] = rsm.detach()
        if findings.mlm is not None and impression.mlm is not None:
            mlm = (findings.mlm + impression.mlm) / 2
            weighted.append(settings.mlm.weight * mlm)
            terms["mlm"] = mlm.detach()
        samples = len(findings.projected)
        total = torch.stack(weighted).sum()
        return Losses(total, terms, samples, findings.tokens + impression.tokens)

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation reports, sentences in their own order."""
        batches = contrastive_batches(len(self.validation), self.settings.training.batch_size)
        own = batches[self.processes.rank :: self.processes.world]
        found = [self._objective(self.validation, batch, 0, 0, False, ALONE) for batch in own]
        return mean_losses(found, self.processes)

    def export(self, folder: Path) -> None:
        """The text half and its tokenizer."""
        save_text_half(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)
