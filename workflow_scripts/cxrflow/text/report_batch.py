"""Reports as batches: FINDINGS and IMPRESSION, tokenised once, sentences shuffled (section 2.1).

All sentences of a table of pairs are tokenised when the object is made and kept as ragged arrays;
a batch only gathers. Sentence order is drawn for (seed, epoch, report), so it does not depend on
the batch a report stands in.

Shapes: ``N`` reports, ``B`` reports of a batch, ``L`` tokens of its longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cxrflow.compute.keyed_random import row_state, uniform
from cxrflow.errors import InputError
from cxrflow.text.sentences import sentences_of
from cxrflow.text.tokenizer import VocabularyInfo

Ints = NDArray[np.int64]
Section = Literal["findings", "impression"]
SECTIONS: tuple[Section, ...] = ("findings", "impression")


@dataclass(frozen=True)
class _Ragged:
    """Sentences of one section: report → sentences → tokens."""

    tokens: NDArray[np.int32]
    token_offsets: Ints  # [sentences + 1]
    sentence_offsets: Ints  # [N + 1]
    stream: int  # of the draws, another for each section


class ReportTokens:
    """The texts of a pairs table, ready for batches.

    ``pairs`` has the columns ``findings_sentences`` and ``impression_sentences`` (lists of
    strings) or, where a list is missing, ``findings`` and ``impression``. A sequence is ``[CLS]``,
    the sentences and ``[SEP]``, cut at ``max_length`` tokens. Rows are row numbers of ``pairs``.
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
            ragged = _tokenise(sentences_of(pairs, section), tokenizer, stream)
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
    ) -> dict[str, torch.Tensor]:
        """Sequences of ``rows``, padded to the longest.

        ``input_ids`` and ``attention_mask`` [B, L] and ``keys`` [B] for masking (another for each
        row and section), all int64 on the CPU. With ``shuffle`` the sentences stand in an order
        drawn for (seed, epoch, row, section), with ``one_sentence`` the first of that order stands
        alone: one of the section's sentences, each as likely as the others. A report without the
        section is [CLS] [SEP]; see ``present``.
        """
        ragged = self._sections[section]
        rows = np.asarray(rows, dtype=np.int64)
        owner, sentences = self._chosen(ragged, rows, seed, epoch, shuffle, one_sentence)
        sizes = np.diff(ragged.token_offsets)[sentences]
        tokens = ragged.tokens[ranges(ragged.token_offsets[sentences], sizes)]
        token_owner = np.repeat(owner, sizes)
        per_report = np.bincount(token_owner, minlength=len(rows))
        place = np.arange(len(tokens)) - (np.cumsum(per_report) - per_report)[token_owner] + 1
        fits = place < self.max_length - 1
        lengths = np.minimum(per_report, self.max_length - 2) + 2
        width = int(lengths.max(initial=2))
        ids = np.full((len(rows), width), self.vocabulary.pad, dtype=np.int64)
        ids[:, 0] = self.vocabulary.cls_
        ids[token_owner[fits], place[fits]] = tokens[fits]
        ids[np.arange(len(rows)), lengths - 1] = self.vocabulary.sep
        mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "keys": torch.from_numpy(rows * len(SECTIONS) + ragged.stream),
        }

    def _chosen(
        self, ragged: _Ragged, rows: Ints, seed: int, epoch: int, shuffle: bool, one_sentence: bool
    ) -> tuple[Ints, Ints]:
        """The sentences that make the sequences, and the place among ``rows`` of each."""
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


def _tokenise(reports: list[list[str]], tokenizer: Tokenizer, stream: int) -> _Ragged:
    """Each distinct sentence goes through the tokenizer once: reports repeat sentences heavily."""
    distinct = list(dict.fromkeys(sentence for report in reports for sentence in report))
    encoded = tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
    ids = {text: encoding.ids for text, encoding in zip(distinct, encoded, strict=True)}
    flat = [ids[sentence] for report in reports for sentence in report]
    sizes = np.fromiter(map(len, flat), dtype=np.int64, count=len(flat))
    counts = np.fromiter(map(len, reports), dtype=np.int64, count=len(reports))
    total = int(sizes.sum())
    tokens = np.fromiter((i for sentence in flat for i in sentence), dtype=np.int32, count=total)
    return _Ragged(tokens, offsets_of(sizes), offsets_of(counts), stream)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """``concatenate([arange(s, s + c) for s, c in zip(starts, counts)])`` without the loop."""
    ends = np.cumsum(counts)
    total = ends[-1] if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + counts, counts)


def offsets_of(counts: Ints) -> Ints:
    """Where each list starts, and where the last ends: ``[0, c0, c0 + c1, …]``."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
