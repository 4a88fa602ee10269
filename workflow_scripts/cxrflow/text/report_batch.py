"""Texts as batches: sentences of reports shuffled, whole words masked (BioViL section 2.1).

All sentences of a table of pairs are tokenised when the object is made and kept as ragged arrays; a
batch only gathers. Sentence order is drawn for (seed, epoch, report), so it does not depend on the
batch a report stands in.

Masking is dynamic: "dynamic whole-word masking". *Words* are BERT's: a piece and the ``##`` pieces
that follow it. *Selection*: every word is chosen independently with probability ``rate``, as
RoBERTa's and transformers' collators do; the expected share of chosen tokens is then ``rate``, and
it varies from row to row. All pieces of a chosen word are predicted. *Replacement* is decided for
each piece, as in BERT's script (whole-word variant included): ``mask_share`` become [MASK],
``random_share`` an ordinary piece drawn uniformly, the rest stay. Special tokens are neither chosen
nor drawn. Randomness is a function of (seed, epoch, key of the row, place in the row) only.

Shapes: ``N`` reports, ``B`` rows of a batch, ``L`` places of its longest, ``M`` predicted tokens,
``V`` pieces.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.compute.keyed_random import BITS, row_state, threshold, uniform
from cxrflow.text.sentences import sentences_of
from cxrflow.text.settings import MaskingSettings
from cxrflow.text.tokenizer import VocabularyInfo, ids_of

Ints = NDArray[np.int64]
Section = Literal["findings", "impression"]
SECTIONS: tuple[Section, ...] = ("findings", "impression")
_SELECT, _REPLACE, _DRAW = 1, 2, 3  # streams of masking


class ReportSentence(NamedTuple):
    """A sentence of a report as it was written, and its tokens."""

    text: str
    tokens: NDArray[np.int32]


def cut_sentences(sentences: Iterable[ReportSentence], length: int) -> list[ReportSentence]:
    """The sentences of a text of at most ``length`` tokens, with [CLS] and [SEP].

    What the cut leaves of a sentence keeps its tokens and no text, as it says nothing for certain.
    """
    kept_sentences, room = [], length - 2
    for sentence in sentences:
        if room <= 0:
            break
        fits = len(sentence.tokens) <= room
        kept_sentences.append(sentence if fits else ReportSentence("", sentence.tokens[:room]))
        room -= len(sentence.tokens)
    return kept_sentences


@dataclass(frozen=True)
class _Ragged:
    """Sentences of one section: report → sentences → tokens."""

    texts: list[str]  # distinct sentences, as they were written
    number: NDArray[np.int32]  # [sentences], which of them each is
    tokens: NDArray[np.int32]
    token_offsets: Ints  # [sentences + 1]
    sentence_offsets: Ints  # [N + 1]
    stream: int  # of the draws, another for each section


class ReportTokens:
    """The texts of a pairs table, ready for batches.

    ``pairs`` has the columns ``findings_sentences`` and ``impression_sentences`` (lists of
    strings) or, where a list is missing, ``findings`` and ``impression``. Where these are cleaned,
    ``findings_written`` and ``impression_written`` have the same sentences as they were written. A
    sequence is ``[CLS]``, the sentences and ``[SEP]``, cut at ``max_length`` tokens. Rows are row
    numbers of ``pairs``.
    """

    def __init__(self, pairs: pd.DataFrame, tokenizer: Tokenizer, max_length: int) -> None:
        if max_length < 3:
            raise InputError(f"max_length is {max_length}; expected at least 3")
        self.max_length = max_length
        self.vocabulary = VocabularyInfo.from_tokenizer(tokenizer)
        self._sections: dict[str, _Ragged] = {}
        self.present: dict[str, NDArray[np.bool_]] = {}
        self.truncated: dict[str, int] = {}
        for stream, section in enumerate(SECTIONS):
            sentences = sentences_of(pairs, section)
            ragged = _tokenise(sentences, _written(pairs, section, sentences), tokenizer, stream)
            full = np.diff(ragged.token_offsets[ragged.sentence_offsets])
            self._sections[section] = ragged
            self.present[section] = full > 0
            self.truncated[section] = int((full > max_length - 2).sum())
        self.size = len(pairs)

    def __len__(self) -> int:
        return self.size

    def lengths(self, section: Section) -> Ints:
        """``[N]``: tokens of each report's sequence with [CLS] and [SEP], after cutting."""
        ragged = self._sections[section]
        full = np.diff(ragged.token_offsets[ragged.sentence_offsets])
        return np.minimum(full, self.max_length - 2) + 2

    def batch(
        self,
        rows: Sequence[int] | Ints,
        section: Section,
        seed: int,
        epoch: int,
        shuffle: bool = True,
        one_sentence: bool = False,
    ) -> dict[str, Tensor]:
        """Sequences of ``rows``, padded to the longest.

        ``input_ids`` and ``attention_mask`` [B, L] and ``keys`` [B] for masking (another for each
        row and section), all int64 on the CPU. With ``shuffle`` the sentences stand in an order
        drawn for (seed, epoch, row, section), with ``one_sentence`` the first of that order stands
        alone: one of the section's sentences, each as likely as the others. A report without the
        section is [CLS] [SEP]; see ``present``.
        """
        ragged = self._sections[section]
        rows = np.asarray(rows, dtype=np.int64)
        owner, sentences = self.chosen(rows, section, seed, epoch, shuffle, one_sentence)
        sizes = np.diff(ragged.token_offsets)[sentences]
        tokens = ragged.tokens[ranges(ragged.token_offsets[sentences], sizes)]
        keys = rows * len(SECTIONS) + ragged.stream
        return self._sequences(tokens, np.repeat(owner, sizes), keys)

    def sequences(self, texts: Sequence[Sequence[int]], keys: Tensor) -> dict[str, Tensor]:
        """The same for B texts of given tokens, without [CLS] and [SEP], and their ``keys`` [B]."""
        owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
        tokens = np.fromiter((token for text in texts for token in text), np.int32, len(owner))
        return self._sequences(tokens, owner, keys.numpy())

    def _sequences(
        self, tokens: NDArray[np.int32], token_owner: Ints, keys: Ints
    ) -> dict[str, Tensor]:
        """[CLS], each row's tokens up to the longest length, [SEP]."""
        rows = len(keys)
        per_report = np.bincount(token_owner, minlength=rows)
        place = np.arange(len(tokens)) - (np.cumsum(per_report) - per_report)[token_owner] + 1
        fits = place < self.max_length - 1
        lengths = np.minimum(per_report, self.max_length - 2) + 2
        width = int(lengths.max(initial=2))
        ids = np.full((rows, width), self.vocabulary.pad, dtype=np.int64)
        ids[:, 0] = self.vocabulary.cls_
        ids[token_owner[fits], place[fits]] = tokens[fits]
        ids[np.arange(rows), lengths - 1] = self.vocabulary.sep
        mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "keys": torch.from_numpy(keys),
        }

    def chosen(
        self, rows: Ints, section: Section, seed: int, epoch: int, shuffle: bool, one_sentence: bool
    ) -> tuple[Ints, Ints]:
        """The place among ``rows`` of each sentence of the sequences, and its number.

        Sentences are numbered through the section's reports; see :meth:`sentence`.
        """
        ragged = self._sections[section]
        counts = np.diff(ragged.sentence_offsets)[rows]
        owner = np.repeat(np.arange(len(rows)), counts)
        sentences = ranges(ragged.sentence_offsets[rows], counts)
        if shuffle or one_sentence:
            state = row_state(torch.from_numpy(rows), seed, epoch, 16 + ragged.stream)
            number = sentences - ragged.sentence_offsets[rows][owner]
            draws = uniform(state[torch.from_numpy(owner)], torch.from_numpy(number))
            sentences = sentences[np.lexsort((draws.numpy(), owner))]
        if one_sentence:
            first = (np.cumsum(counts) - counts)[counts > 0]
            owner, sentences = owner[first], sentences[first]
        return owner, sentences

    def sentence(self, section: Section, number: int) -> ReportSentence:
        """Return a sentence by its number."""
        ragged = self._sections[section]
        begin, end = ragged.token_offsets[number : number + 2]
        return ReportSentence(ragged.texts[ragged.number[number]], ragged.tokens[begin:end])


@dataclass(frozen=True)
class MaskedBatch:
    """Input of the model and the targets of its predictions."""

    input_ids: Tensor  # [B, L], with the replacements
    positions: Tensor  # [M] int64, places in input_ids.flatten(), ascending
    targets: Tensor  # [M] int64, the true ids there


class WordMasker:
    """Masks batches on whatever device they are."""

    def __init__(self, vocabulary: VocabularyInfo, settings: MaskingSettings) -> None:
        self._chosen_below = threshold(settings.rate)
        self._mask_id = vocabulary.mask
        self._mask_below = threshold(settings.mask_share)
        self._random_below = threshold(settings.mask_share + settings.random_share)
        continues = torch.from_numpy(vocabulary.continues)
        self._continues = continues if settings.unit == "word" else torch.zeros_like(continues)
        self._special = torch.from_numpy(vocabulary.special)
        self._ordinary = torch.nonzero(~self._special).flatten()

    def __call__(
        self,
        input_ids: Tensor,
        maskable: Tensor,
        keys: Tensor,
        seed: int,
        epoch: int,
    ) -> MaskedBatch:
        """Mask ``input_ids`` [B, L] where ``maskable`` [B, L] (bool) allows it.

        ``keys`` [B] int64 name the rows: the same key, seed and epoch give the same mask.
        """
        self._to(input_ids.device)
        candidates = maskable & ~self._special[input_ids]
        first = self._word_starts(input_ids, candidates)
        state = row_state(keys, seed, epoch, _SELECT)[:, None]
        # A word's number is that of the place where it starts, so it is drawn once for all pieces.
        chosen = candidates & (uniform(state, first) < self._chosen_below)
        positions = torch.nonzero(chosen.flatten()).flatten()
        targets = input_ids.flatten()[positions]
        return MaskedBatch(
            self._replaced(input_ids, positions, targets, keys, seed, epoch), positions, targets
        )

    def _to(self, device: torch.device) -> None:
        if self._special.device != device:
            self._special = self._special.to(device)
            self._continues = self._continues.to(device)
            self._ordinary = self._ordinary.to(device)

    def _word_starts(self, input_ids: Tensor, candidates: Tensor) -> Tensor:
        """``[B, L]``: the place in the row at which the word of each place starts.

        A ``##`` piece after something that may not be masked (a special token, an excluded place)
        has lost its beginning and starts a word itself.
        """
        follows = self._continues[input_ids] & candidates
        follows[:, 1:] &= candidates[:, :-1]
        follows[:, 0] = False
        places = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        return torch.where(follows, 0, places).cummax(dim=1).values

    def _replaced(
        self,
        input_ids: Tensor,
        positions: Tensor,
        targets: Tensor,
        keys: Tensor,
        seed: int,
        epoch: int,
    ) -> Tensor:
        length = input_ids.shape[1]
        row, place = positions // length, positions % length
        action = uniform(row_state(keys, seed, epoch, _REPLACE)[row], place)
        draw = uniform(row_state(keys, seed, epoch, _DRAW)[row], place)
        # A draw of BITS bits times their number, shifted, is uniform over the ordinary pieces.
        random_ids = self._ordinary[(draw * len(self._ordinary)) >> BITS]
        new = torch.where(action < self._random_below, random_ids, targets)
        new = torch.where(action < self._mask_below, self._mask_id, new)
        return input_ids.flatten().index_copy(0, positions, new).view_as(input_ids)


def _written(pairs: pd.DataFrame, section: str, sentences: list[list[str]]) -> list[list[str]]:
    """Return the sentences of every row as they were written."""
    lists = pairs.get(f"{section}_written", sentences)
    written = [raw if len(raw) else read for raw, read in zip(lists, sentences, strict=True)]
    if [*map(len, written)] != [*map(len, sentences)]:
        raise ValueError(f"pairs: '{section}_written' has other sentences than the list")
    return written


def _tokenise(
    reports: list[list[str]], written: list[list[str]], tokenizer: Tokenizer, stream: int
) -> _Ragged:
    """Each distinct sentence goes through the tokenizer once: reports repeat sentences heavily."""
    distinct, place = _numbered(reports)
    ids = ids_of(tokenizer, distinct)
    flat = [ids[number] for number in place]
    texts, number = _numbered(written)
    sizes = np.fromiter(map(len, flat), dtype=np.int64, count=len(flat))
    counts = np.fromiter(map(len, reports), dtype=np.int64, count=len(reports))
    total = int(sizes.sum())
    tokens = np.fromiter((i for sentence in flat for i in sentence), dtype=np.int32, count=total)
    return _Ragged(texts, number, tokens, offsets_of(sizes), offsets_of(counts), stream)


def _numbered(reports: list[list[str]]) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct sentences of reports, and of each sentence which of them it is."""
    sentences = [sentence for report in reports for sentence in report]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(sentences))}
    return list(numbers), np.array([numbers[text] for text in sentences], dtype=np.int32)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """``concatenate([arange(s, s + c) for s, c in zip(starts, counts)])`` without the loop."""
    ends = np.cumsum(counts)
    total = ends[-1] if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + counts, counts)


def offsets_of(counts: Ints) -> Ints:
    """Where each list starts, and where the last ends: ``[0, c0, c0 + c1, …]``."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
