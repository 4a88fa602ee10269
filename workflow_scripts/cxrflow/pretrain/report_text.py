"""Text of reports on its way through the encoder: intact and masked versions in one pass.

Shared by phase III (sections) and joint training (IMPRESSION), BioViL section 2.1 and 2.2.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cxrflow.encoders.cxr_bert import CXRBert, load_text_half
from cxrflow.objectives.masked_language_modelling import masked_language_modelling
from cxrflow.pretrain.settings import MaskedLanguageSettings
from cxrflow.text.masking import WordMasker
from cxrflow.text.report_batch import ReportTokens, Section
from cxrflow.training.processes import Processes


class EncodedReports(NamedTuple):
    """One section of B reports."""

    projected: Tensor  # [B, P], not normalised
    mlm: Tensor | None  # scalar, the share of these B; None when the MLM term is off
    tokens: int


def encode_reports(
    text: CXRBert,
    masker: WordMasker,
    settings: MaskedLanguageSettings,
    reports: ReportTokens,
    rows: np.ndarray,
    section: Section,
    seed: int,
    epoch: int,
    shuffle: bool,
    device: torch.device,
    processes: Processes,
) -> EncodedReports:
    """Project [CLS] and take the MLM loss of this process's share of a batch of ``rows``.

    With ``forward: separate`` the intact and the masked sequences are stacked into one batch of 2B
    (nothing in BERT mixes rows, so this equals two passes); with ``shared`` both terms read the
    masked one.
    """
    own = processes.share(rows)
    batch = reports.batch(own, section, seed=seed, epoch=epoch, shuffle=shuffle)
    intact, mask = batch["input_ids"].to(device), batch["attention_mask"]
    tokens = int(mask.sum())
    if settings.weight == 0:
        return EncodedReports(text.project(text.hidden_states(intact, mask)), None, tokens)
    masked = masker(batch["input_ids"], mask.bool(), batch["keys"], seed, epoch)
    corrupted, positions = masked.input_ids.to(device), masked.positions.to(device)
    if settings.forward == "separate":
        hidden = text.hidden_states(torch.cat([intact, corrupted]), torch.cat([mask, mask]))
        intact_hidden, masked_hidden = hidden.chunk(2)
    else:
        intact_hidden = masked_hidden = text.hidden_states(corrupted, mask)
    logits = text.predict_tokens(masked_hidden, positions)
    divisor = mlm_divisor(settings.reduction, len(masked.targets), len(own), processes)
    mlm = masked_language_modelling(logits, masked.targets.to(device), divisor)
    return EncodedReports(text.project(intact_hidden), mlm, tokens)


def mlm_divisor(reduction: str, masked: int, sequences: int, processes: Processes) -> int:
    """What the MLM loss of a batch is divided by, from one process's share of it."""
    return processes.total(masked if reduction == "token" else sequences)


def train_only(text: CXRBert, tokens: bool, projection: bool) -> None:
    """Freeze the head that no term of the objective reads: that of tokens, or the projection.

    Processes that train together wait for every parameter that could have a gradient.
    """
    text.cls_projection_head.requires_grad_(projection)
    embeddings = text.bert.embeddings.word_embeddings.weight  # the token head's, too
    for parameter in text.cls.parameters():
        if parameter is not embeddings:
            parameter.requires_grad_(tokens)


def start_text(folder: str | Path, dropout: float, attention_dropout: float) -> CXRBert:
    """A text encoder that goes on from a model folder, with this stage's dropout."""
    text = load_text_half(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    return text
