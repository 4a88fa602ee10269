"""Texts of reports on their way through the encoder, intact and masked, as terms need them.

Shared by phase III (sections) and joint training (IMPRESSION), BioViL section 2.1 and 2.2. Joint
training may read one random sentence instead, and freeze lower layers (ConVIRT section 3.3).

Shapes: B texts of L tokens, D width, P joint space, M masked tokens of V pieces.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.cxr_bert import CXRBert, load_text_half
from cxrflow.encoders.settings import TextPooling
from cxrflow.errors import InputError
from cxrflow.pretrain.objective import Batch, Term, Views
from cxrflow.text.masking import WordMasker
from cxrflow.text.report_batch import ReportTokens, Section
from cxrflow.text.sentences import has_text, sentences_of
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.processes import Processes


class MaskedText(NamedTuple):
    """What is predicted of masked texts, and what the whole batch has of them."""

    logits: Tensor  # [M, V]
    targets: Tensor  # [M]
    tokens: int  # masked ones, of all processes
    sequences: int  # likewise


@dataclass(frozen=True)
class Texts:
    """The texts of a split, one a report: a section, or one sentence drawn from it."""

    reports: ReportTokens
    section: Section
    shuffle: bool  # the sentences, anew in every epoch
    one_sentence: bool = False

    def take(self, batch: Batch) -> dict[str, Tensor]:
        """This process's texts of a batch: ``ReportTokens.batch``."""
        return self.reports.batch(
            batch.own,
            self.section,
            seed=batch.seed,
            epoch=batch.epoch,
            shuffle=self.shuffle,
            one_sentence=self.one_sentence,
        )


@dataclass
class TextOutput:
    """B texts after the encoder."""

    encoder: CXRBert
    ids: Tensor  # [B, L], intact, on the CPU
    mask: Tensor  # [B, L], on the CPU
    states: list[Tensor]  # [B, L, D] of the last layers
    masked: MaskedText | None

    @cached_property
    def projected(self) -> Tensor:
        """[B, P], not normalised."""
        return self.encoder.project(self.states[-1], self.mask)


class TextPasses:
    """Takes texts through the encoder as often as the terms of an objective need it.

    Intact and masked texts are stacked into one batch of 2B: nothing in BERT mixes rows, so this
    equals two passes. Terms that share a forward pass with MLM read the masked text's states.
    Frozen is the head that no term reads, that of tokens or the projection: processes that train
    together wait for every parameter that could have a gradient.
    """

    def __init__(
        self,
        encoder: CXRBert,
        vocabulary: VocabularyInfo,
        terms: Iterable[Term],
        device: torch.device,
    ) -> None:
        terms = list(terms)
        self.encoder, self.device = encoder, device
        self.layers = max(term.layers for term in terms)
        masks = next((term.masks for term in terms if term.masks), None)
        self.masker = masks and WordMasker(vocabulary, masks.masking)
        self.stacked = masks and masks.forward == "separate" and self.layers > 0
        train_only(encoder, tokens=masks is not None, projection=self.layers > 0)

    def __call__(self, texts: Texts, batch: Batch) -> TextOutput:
        """This process's share of a batch."""
        taken = texts.take(batch)
        ids, mask = taken["input_ids"], taken["attention_mask"]
        if self.masker is None:
            states = self.encoder.last_states(sent(ids, self.device), mask, self.layers)
            return TextOutput(self.encoder, ids, mask, states, None)
        masked = self.masker(ids, mask.bool(), taken["keys"], batch.seed, batch.epoch)
        corrupted = sent(masked.input_ids, self.device)
        if self.stacked:
            both = torch.cat([sent(ids, self.device), corrupted])
            stacks = self.encoder.last_states(both, torch.cat([mask, mask]), self.layers)
            states, hidden = [stack.chunk(2)[0] for stack in stacks], stacks[-1].chunk(2)[1]
        else:
            states = self.encoder.last_states(corrupted, mask, max(1, self.layers))
            hidden = states[-1]
        logits = self.encoder.predict_tokens(hidden, sent(masked.positions, self.device))
        targets = sent(masked.targets, self.device)
        counts = totals(batch.processes, len(targets), len(ids))
        return TextOutput(self.encoder, ids, mask, states, MaskedText(logits, targets, *counts))


class TextViews(Views):
    """One or more texts of every sample."""

    def __init__(self, passes: TextPasses, texts: Sequence[Texts], batch: Batch) -> None:
        super().__init__(batch)
        self._passes, self._texts = passes, texts

    @cached_property
    def texts(self) -> list[TextOutput]:
        """Each of them after the encoder."""
        return [self._passes(texts, self.batch) for texts in self._texts]

    @property
    def masked(self) -> list[MaskedText]:
        """Those of the masked texts."""
        return [text.masked for text in self.texts if text.masked is not None]

    @property
    def tokens(self) -> int:  # type: ignore[override]
        return sum(int(text.mask.sum()) for text in self.texts)


def totals(processes: Processes, *counts: int) -> list[int]:
    """Sums of counts over all processes."""
    sums: list[int] = processes.sum(torch.tensor(counts)).tolist()
    return sums


def sentence_pool(pairs: pd.DataFrame, sections: Sequence[Section]) -> pd.DataFrame:
    """``pairs`` whose IMPRESSION is replaced by all sentences of ``sections`` that have text."""
    by_section = [sentences_of(pairs, section) for section in sections]
    pools = [
        [sentence for sentences in report for sentence in sentences if has_text([sentence])]
        for report in zip(*by_section, strict=True)
    ]
    return pairs.assign(impression_sentences=pd.Series(pools, index=pairs.index, dtype=object))


def train_only(text: CXRBert, tokens: bool, projection: bool) -> None:
    """Freeze the head of tokens, the projection, or neither."""
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
    """A text encoder that starts from a model folder, with this stage's dropout and pooling."""
    text = load_text_half(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    text.set_pooling(pooling)
    return text
