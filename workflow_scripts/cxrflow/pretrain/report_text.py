"""Text of reports on its way through the encoder: intact and masked versions in one pass.

Shared by phase III (sections) and joint training (IMPRESSION), BioViL section 2.1 and 2.2. Joint
training may read one random sentence instead, and freeze lower layers (ConVIRT section 3.3).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cxrflow.encoders.cxr_bert import CXRBert, load_text_half
from cxrflow.encoders.settings import TextPooling
from cxrflow.errors import InputError
from cxrflow.objectives.masked_language_modelling import masked_language_modelling
from cxrflow.pretrain.settings import MaskedLanguageSettings
from cxrflow.text.masking import WordMasker
from cxrflow.text.report_batch import ReportTokens, Section
from cxrflow.text.sentences import has_text, sentences_of
from cxrflow.training.processes import Processes

if TYPE_CHECKING:  # phase III has nothing to do with images
    from cxrflow.encoders.word_aggregation import Words
    from cxrflow.pretrain.local_term import LocalTerm


class EncodedReports(NamedTuple):
    """One section of B reports."""

    projected: Tensor  # [B, P], not normalised
    mlm: Tensor | None  # scalar, the share of these B; None when the MLM term is off
    tokens: int
    words: "Words | None"  # projected, for the local term; None when that is off


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
    one_sentence: bool = False,
    local: "LocalTerm | None" = None,
) -> EncodedReports:
    """Project [CLS] and take the MLM loss of this process's share of a batch of ``rows``.

    With ``forward: separate`` the intact and the masked sequences are stacked into one batch of 2B
    (nothing in BERT mixes rows, so this equals two passes); with ``shared`` both terms read the
    masked one. ``one_sentence`` reads a random sentence of the section; ``local`` makes words of
    the sequences that are projected.
    """
    own = processes.share(rows)
    batch = reports.batch(
        own, section, seed=seed, epoch=epoch, shuffle=shuffle, one_sentence=one_sentence
    )
    intact, mask = batch["input_ids"].to(device), batch["attention_mask"]
    tokens = int(mask.sum())
    layers = local.settings.layers if local else 1

    def encoded(last: list[Tensor], mlm: Tensor | None) -> EncodedReports:
        # A masked word is still a word of as many pieces: the intact ids tell.
        words = local.words(last, batch["input_ids"]) if local else None
        return EncodedReports(text.project(last[-1], mask), mlm, tokens, words)

    if settings.weight == 0:
        return encoded(text.last_states(intact, mask, layers), None)
    masked = masker(batch["input_ids"], mask.bool(), batch["keys"], seed, epoch)
    corrupted, positions = masked.input_ids.to(device), masked.positions.to(device)
    if settings.forward == "separate":
        both = text.last_states(torch.cat([intact, corrupted]), torch.cat([mask, mask]), layers)
        last = [states.chunk(2)[0] for states in both]
        masked_hidden = both[-1].chunk(2)[1]
    else:
        last = text.last_states(corrupted, mask, layers)
        masked_hidden = last[-1]
    logits = text.predict_tokens(masked_hidden, positions)
    divisor = mlm_divisor(settings.reduction, len(masked.targets), len(own), processes)
    mlm = masked_language_modelling(logits, masked.targets.to(device), divisor)
    return encoded(last, mlm)


def sentence_pool(pairs: pd.DataFrame, sections: Sequence[Section]) -> pd.DataFrame:
    """``pairs`` whose IMPRESSION is replaced by all sentences of ``sections`` that have text."""
    by_section = [sentences_of(pairs, section) for section in sections]
    pools = [
        [sentence for sentences in report for sentence in sentences if has_text([sentence])]
        for report in zip(*by_section, strict=True)
    ]
    return pairs.assign(impression_sentences=pd.Series(pools, index=pairs.index, dtype=object))


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


def freeze_below(text: CXRBert, layers: int) -> None:
    """Leave the first ``layers`` layers as they are and, if there are any, the embeddings."""
    if layers > text.config.num_hidden_layers:
        raise InputError(
            f"settings: key 'frozen_layers' is {layers}, but the text encoder has "
            f"{text.config.num_hidden_layers} layers; expected no more than that"
        )
    if layers > 0:
        text.bert.embeddings.requires_grad_(False)
    for layer in text.bert.encoder.layer[:layers]:
        layer.requires_grad_(False)


def start_text(
    folder: str | Path, dropout: float, attention_dropout: float, pooling: TextPooling = "cls"
) -> CXRBert:
    """A text encoder that goes on from a model folder, with this stage's dropout and pooling."""
    text = load_text_half(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    text.set_pooling(pooling)
    return text
