"""Texts of reports on their way through the encoder, intact and masked, as terms need them.

Shared by phase III (sections) and joint training (IMPRESSION), BioViL section 2.1 and 2.2. Joint
training may read one random sentence instead, and freeze lower layers (ConVIRT section 3.3), or
the sections of a report one after the other (BioViL-T section 4; MGCA).

Shapes: B texts of L tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import pad

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.compute.keyed_random import BITS, row_state, uniform
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.pretrain.objective import Batch, Computed, MaskedText, TextOutput, Views
from cxrflow.pretrain.starts import train_only
from cxrflow.pretrain.terms.base_settings import Needs
from cxrflow.text.report_batch import (
    MaskedBatch,
    ReportSentence,
    ReportTokens,
    Section,
    WordMasker,
    cut_sentences,
)
from cxrflow.text.sentences import has_text, sentences_of
from cxrflow.text.tokenizer import VocabularyInfo

if TYPE_CHECKING:
    from cxrflow.encoders.image_encoder import ImageOutput
    from cxrflow.text.eda import AugmentedReports

OTHER_TEXT = 49  # stream of the keyed draws of another sample's text
REPORT: tuple[Section, ...] = ("impression", "findings")  # the order of a whole report (MGCA)

#: Texts as tokens (``ReportTokens.batch``), and with masked words if some are to be predicted.
Words = tuple[dict[str, Tensor], MaskedBatch | None]


@dataclass(frozen=True)
class Texts:
    """The texts of a split, one a report: its sections in this order, or one sentence of them."""

    reports: ReportTokens
    sections: tuple[Section, ...]
    shuffle: bool  # the sentences within their section, anew in every epoch
    one_sentence: bool = False  # of the first section
    augmented_reports: "AugmentedReports | None" = None

    def intact(self, batch: Batch) -> dict[str, Tensor]:
        """This process's texts of a batch as they are: ``ReportTokens.batch``."""
        section_tokens = [
            self.reports.batch(
                batch.own,
                section,
                seed=batch.seed,
                epoch=batch.epoch,
                shuffle=self.shuffle,
                one_sentence=self.one_sentence,
            )
            for section in self.sections
        ]
        return section_tokens[0] if len(section_tokens) == 1 else self._joined(section_tokens)

    def other(self, batch: Batch) -> dict[str, Tensor]:
        """For each sample the text of another one of the split, drawn anew in every epoch."""
        rows, samples = batch.rows, len(self.reports)
        state = row_state(torch.from_numpy(rows), batch.seed, batch.epoch, OTHER_TEXT)
        numbers = uniform(state, torch.zeros(1, dtype=torch.int64)).numpy()
        other_rows = (rows + 1 + (numbers * (samples - 1) >> BITS)) % samples
        return self.intact(batch._replace(rows=other_rows))

    def augmented(self, batch: Batch) -> dict[str, Tensor]:
        """The same texts augmented, drawn anew in every epoch."""
        if self.augmented_reports is None:
            raise InputError(
                "settings: key 'text_augmentation' is null, but a term reads augmented texts; "
                "expected its settings ({} is easy data augmentation)"
            )
        intact, (_, seed, epoch, *_) = self.intact(batch), batch
        return self.augmented_reports.batch(
            intact, batch.own, self.sections, seed, epoch, self.shuffle, self.one_sentence
        )

    def sentences(self, batch: Batch) -> list[list[ReportSentence]]:
        """The sentences of all processes' texts in a batch, as they stand and as they are cut."""
        texts: list[list[ReportSentence]] = [[] for _ in batch.rows]
        for section in self.sections:
            chosen = self.reports.chosen(
                batch.rows, section, batch.seed, batch.epoch, self.shuffle, self.one_sentence
            )
            for place, number in zip(*chosen, strict=True):
                texts[place].append(self.reports.sentence(section, number))
        return [cut_sentences(text, self.reports.max_length) for text in texts]

    def _joined(self, section_tokens: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """[CLS], one section after another, [SEP]; what is too long loses its end."""
        ids, inside = [], []
        for number, tokens in enumerate(section_tokens):
            length_B1 = tokens["attention_mask"].sum(1, keepdim=True)
            place_L = torch.arange(tokens["input_ids"].shape[1])
            begin = int(number > 0)  # [CLS] of the first section alone
            end_B1 = length_B1 - int(number < len(section_tokens) - 1)  # [SEP] of the last alone
            ids.append(tokens["input_ids"])
            inside.append((place_L >= begin) & (place_L < end_B1))
        ids_BL, inside_BL = torch.cat(ids, dim=1), torch.cat(inside, dim=1)
        lengths_B = inside_BL.sum(1).clamp(max=self.reports.max_length)
        order_BL = (~inside_BL).long().argsort(dim=1, stable=True)[:, : int(lengths_B.max())]
        mask_BL = torch.arange(order_BL.shape[1]) < lengths_B[:, None]
        vocabulary = self.reports.vocabulary
        ids_BL = ids_BL.gather(1, order_BL).masked_fill(~mask_BL, vocabulary.pad)
        ids_BL[torch.arange(len(ids_BL)), lengths_B - 1] = vocabulary.sep  # also where it is cut
        return {
            "input_ids": ids_BL,
            "attention_mask": mask_BL.long(),
            "keys": section_tokens[0]["keys"],
        }


#: The passes of a sample's text, by the name under which terms read them.
PASSES: dict[str, Callable[[Texts, Batch], dict[str, Tensor]]] = {
    "intact": Texts.intact,
    "other": Texts.other,
    "augmented": Texts.augmented,
}


class TextPasses:
    """Takes texts through the encoder as the terms of an objective need it.

    Intact and masked texts are stacked into one batch of 2B: nothing in BERT mixes rows, so this
    equals two passes. Terms that share a forward pass with MLM read the masked text's states.
    Frozen is the head that no term reads, that of tokens or the projection: processes that train
    together wait for every parameter that could have a gradient.
    """

    def __init__(
        self, encoder: CXRBert, vocabulary: VocabularyInfo, needs: Needs, device: torch.device
    ) -> None:
        self.encoder, self.device, self.layers = encoder, device, needs.layers
        masking = needs.masking
        self.masker = None if masking is None else WordMasker(vocabulary, masking)
        self.stacked = masking is not None and not needs.shared and self.layers > 0
        train_only(encoder, tokens=masking is not None, projection=self.layers > 0)

    def masked(self, tokens: dict[str, Tensor], batch: Batch) -> MaskedBatch | None:
        """The same texts with words masked; None if no term predicts any."""
        if self.masker is None:
            return None
        inside = tokens["attention_mask"].bool()
        return self.masker(tokens["input_ids"], inside, tokens["keys"], batch.seed, batch.epoch)

    def __call__(self, words: Words, batch: Batch) -> TextOutput:
        """Encode this process's texts of a batch."""
        return self.together([words], batch)[0]

    def together(self, words: Sequence[Words], batch: Batch) -> list[TextOutput]:
        """Encode several sets of texts in one pass; words are masked in the first set alone."""
        texts, masked = [tokens for tokens, _ in words], words[0][1]
        ids_and_masks = [(text["input_ids"], text["attention_mask"]) for text in texts]
        if masked is not None:
            ids_and_masks[int(self.stacked) : 1] = [(masked.input_ids, ids_and_masks[0][1])]
        states = self._states(ids_and_masks)
        predicted = None
        if masked is not None:
            hidden = states.pop(1)[-1] if self.stacked else states[0][-1]
            predicted = self.predicted(masked, hidden, batch)
        outputs = [
            TextOutput(self.encoder, text["input_ids"], text["attention_mask"], layers, None)
            for text, layers in zip(texts, states, strict=True)
        ]
        outputs[0].masked = predicted
        return outputs

    def _states(self, ids_and_masks: Sequence[tuple[Tensor, Tensor]]) -> list[list[Tensor]]:
        """Return the states of the last layers for each of several ids and masks."""
        width = max(ids.shape[1] for ids, _ in ids_and_masks)
        ids, mask = (
            torch.cat([pad(tensor, (0, width - tensor.shape[1])) for tensor in of_all])
            for of_all in zip(*ids_and_masks, strict=True)
        )
        layers = self.encoder.last_states(sent(ids, self.device), mask, max(1, self.layers))
        if len(ids_and_masks) == 1:
            return [layers]
        sizes = [len(ids) for ids, _ in ids_and_masks]
        by_part = zip(*(layer.split(sizes) for layer in layers), strict=True)
        return [
            [state[:, : ids.shape[1]] for state in states]
            for states, (ids, _) in zip(by_part, ids_and_masks, strict=True)
        ]

    def predicted(self, masked: MaskedBatch, hidden: Tensor, batch: Batch) -> MaskedText:
        """Return the words that are predicted at the masked positions of ``hidden`` [B, L, D]."""
        logits = self.encoder.predict_tokens(hidden, sent(masked.positions, self.device))
        targets = sent(masked.targets, self.device)
        texts, length = hidden.shape[:2]
        words, sequences = batch.processes.totals(len(targets), texts)
        return MaskedText(logits, targets, words, sequences, masked.positions.cpu() // length)


class TextViews(Views):
    """Texts of every sample; ``sources`` give the tokens of each pass of them.

    ``predicted``: the passes whose masked words are predicted.
    """

    def __init__(
        self,
        passes: TextPasses,
        sources: Mapping[str, Callable[[Batch], dict[str, Tensor]]],
        predicted: Sequence[str],
        batch: Batch,
    ) -> None:
        super().__init__(batch)
        self.predicted, self._masks = predicted, passes.masker is not None

        def words(name: str) -> Words:
            tokens = sources[name](batch)
            return tokens, passes.masked(tokens, batch) if name in predicted else None

        self._words = Computed(words)
        self.texts = Computed(lambda name: passes(self._words[name], batch))

    def prepare(self, needs: Needs) -> None:
        for name in {*needs.texts, *(self.predicted if self._masks else ())}:
            _ = self._words[name]

    @property
    def masked(self) -> list[MaskedText]:  # type: ignore[override]
        texts = [self.texts[name] for name in self.predicted]
        return [text.masked for text in texts if text.masked is not None]

    @property
    def tokens(self) -> int:  # type: ignore[override]
        return sum(int(text.mask.sum()) for text in self.texts.values())


class ComposableViews(TextViews, ABC):
    """Images and texts from which a term can compose new ones (MedCutMix)."""

    composed_tokens = 0  # of the texts that were composed

    @property
    def tokens(self) -> int:  # type: ignore[override]
        return super().tokens + self.composed_tokens

    @property
    @abstractmethod
    def features(self) -> Tensor:
        """Features of the first view after stage ``Needs.stage``: [N, C, H, W] or [N, L, D]."""

    @abstractmethod
    def resumed(self, features: Tensor, mean_pooled: bool = False) -> "ImageOutput":
        """The rest of the image encoder for such features, of any number of images.

        ``mean_pooled``: the mean of the patches stands for the image, however the trunk pools.
        """

    @abstractmethod
    def shown_masks(
        self, places: Sequence[int], masks: Callable[[np.ndarray], np.ndarray]
    ) -> Tensor:
        """Masks of images, float32 [K, 1, H, W], moved as the first view moves the image.

        ``places``: in the batch of all processes. ``masks``: uint8 [K, S, S], of stored images by
        their rows [K] of the split.
        """

    @property
    @abstractmethod
    def sentences(self) -> list[list[ReportSentence]]:
        """The sentences of each of all processes' texts."""

    @abstractmethod
    def composed(self, texts: Sequence[Sequence[int]]) -> TextOutput:
        """The text encoder's output for any number of texts, as tokens without [CLS] and [SEP].

        They go through the encoder with the intact texts, which no term may have read before
        (``Term.composes``): a pass of their own would make a GPU wait for its host.
        """


def sentence_pool(pairs: pd.DataFrame, sections: Sequence[Section]) -> pd.DataFrame:
    """``pairs`` whose IMPRESSION is replaced by all sentences of ``sections`` that have text."""
    by_section = [sentences_of(pairs, section) for section in sections]
    pools = [
        [sentence for sentences in report for sentence in sentences if has_text([sentence])]
        for report in zip(*by_section, strict=True)
    ]
    return pairs.assign(impression_sentences=pd.Series(pools, index=pairs.index, dtype=object))
