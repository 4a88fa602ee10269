"""Phase II of CXR-BERT: masked language modelling on packed corpora (BioViL section 2.1).

Rows of ``length`` tokens hold several documents; attention stays inside a document and positions
restart with each. Validation is on the report sections of the cohort's validation split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.cxr_bert import CXRBert, save_text_encoder
from cxrflow.pretrain.inputs import Run, copy_tokenizer
from cxrflow.pretrain.objective import Batch, MaskedText, TermsProgram, Views
from cxrflow.pretrain.report_text import TextPasses, Texts, TextViews
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.packing import PackedCorpus, Plan
from cxrflow.text.report_batch import SECTIONS, MaskedBatch, ReportTokens
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses
from cxrflow.training.sampler import drawn_batches
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import TrainingSettings


@dataclass(frozen=True)
class PackedBatch:
    """Rows of packed documents; int64 on the CPU, as :meth:`PackedCorpus.batch` gives them.

    No tuple: DistributedDataParallel would send its tensors to the GPU, and wait.
    """

    document_BL: Tensor
    position_BL: Tensor
    masked: MaskedBatch


class PackedViews(Views):
    """Some rows of a batch after the encoder."""

    def __init__(self, masked: MaskedText, samples: int, tokens: int) -> None:
        self.masked, self.samples, self.tokens = [masked], samples, tokens


class PackedCorpusProgram(TermsProgram):
    """MLM on rows of a :class:`PackedCorpus`; B rows, L tokens."""

    def __init__(
        self,
        settings: TextPretrainingSettings,
        run: Run,
        corpus: PackedCorpus,
        validation: ReportTokens,
        text: CXRBert,
        vocabulary: Path,
    ) -> None:
        require_filled_parts(settings.training, corpus.rows, run.processes)
        self.text, self.vocabulary, self.corpus = text, vocabulary, corpus
        sizes = {"train": corpus.rows, "validate": len(validation)}
        samples = {name: SampleTable(range(size)) for name, size in sizes.items()}
        super().__init__(settings, run, {"text": text}, samples)
        self.passes = TextPasses(text, corpus.vocabulary, self.needs, run.device)
        self.sections = {name: Texts(validation, (name,), shuffle=False) for name in SECTIONS}
        self._plan: tuple[int, Plan] | None = None
        self._totals = [0, 0]  # masked tokens and rows of a batch, of all processes

    def _packed_rows(self, epoch: int, index: int) -> Plan:
        """Rows of a batch; the plan of the current epoch is kept, as making one takes seconds."""
        plan = self._plan  # another thread may set it meanwhile
        if plan is None or plan[0] != epoch:
            self._plan = plan = epoch, self.corpus.plan(self.run.seed, epoch)
        size = min(self.settings.training.batch_size, self.corpus.rows)
        return plan[1][index * size : (index + 1) * size]

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Packed rows have no ids of their own: epoch and number."""
        return [f"epoch {epoch}, packed row {key}" for key in self._packed_rows(epoch, index).keys]

    def prepare(self, epoch: int, index: int) -> PackedBatch:
        """This process's rows, masked."""
        rows = self._packed_rows(epoch, index)
        rows = rows[self.run.processes.share(np.arange(len(rows)))]
        packed = self.corpus.batch(rows)
        ids, inside = packed["input_ids"], packed["document"] >= 0
        assert self.passes.masker is not None
        masked = self.passes.masker(ids, inside, packed["keys"], self.run.seed, epoch)
        return PackedBatch(packed["document"], packed["position_ids"], masked)

    def losses(self, batch: PackedBatch, micro_batch: int, micro_batches: int) -> Losses:
        """Part of this process's share of a batch; the parts of all processes add up to its loss:
        each divides by the masked tokens (or sequences) of the whole batch."""
        masked, device = batch.masked, self.run.device
        count, length = batch.document_BL.shape
        if micro_batch == 0:
            self._totals = self.run.processes.totals(len(masked.targets), count)
        low, high = count * micro_batch // micro_batches, count * (micro_batch + 1) // micro_batches
        inside = (masked.positions >= low * length) & (masked.positions < high * length)
        document = batch.document_BL[low:high]
        hidden = self.text.packed_states(
            sent(masked.input_ids[low:high], device),
            document,
            sent(batch.position_BL[low:high], device),
        )
        positions = masked.positions[inside] - low * length
        logits = self.text.predict_tokens(hidden, sent(positions, device))
        tokens, sequences = self._totals
        text = MaskedText(logits, sent(masked.targets[inside], device), tokens, sequences)
        return self.objective(PackedViews(text, high - low, int((document >= 0).sum())))

    def validate(self) -> dict[str, float]:
        """Mean MLM loss on both sections of the validation reports."""
        training = self.settings.training
        size = max(1, training.batch_size // training.accumulate)
        batches = [
            TextViews(
                self.passes,
                {section: texts.intact},
                [section],
                Batch(rows[begin : begin + size], 0, 0, ALONE),
            )
            for section, texts in self.sections.items()
            for rows in [np.flatnonzero(texts.reports.present[section])]
            for begin in range(0, len(rows), size)
        ]
        batches = drawn_batches(batches, training.validation_batches)
        batches_here = batches[self.run.processes.rank :: self.run.processes.world]
        return self.validated(batches_here)

    def export(self, folder: Path) -> None:
        """The text encoder and its tokenizer."""
        save_text_encoder(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)


def require_filled_parts(training: TrainingSettings, rows: int, processes: Processes) -> None:
    """Each part that a batch is computed in must hold a row of each process's share."""
    size = min(training.batch_size, rows)
    smallest_share = size // processes.world
    if training.accumulate > max(1, smallest_share):
        raise processes.one_voice(
            InputError(
                f"settings: key 'training.accumulate' is {training.accumulate}, but of a batch of "
                f"{size} packed rows (training.batch_size {training.batch_size}, {rows} rows in "
                f"all) {processes.world} process(es) have {smallest_share} each; expected no more "
                "parts than that"
            )
        )
