"""Pairs of sentences as sequences: "[CLS] premise [SEP] hypothesis [SEP]" (Devlin et al. 2019).

The form in which BERT reads two texts: the first, with [CLS] and its [SEP], is segment 0, the
second, with its [SEP], segment 1. Shapes: N pairs, B pairs of a batch, L tokens of its longest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cxr_files.errors import InputError
from cxrflow.text.tokenizer import VocabularyInfo, ids_of

SPECIAL = 3  # [CLS] and two [SEP]


@dataclass(frozen=True)
class PairBatch:
    """Padded sequences, int64 on the CPU."""

    rows: NDArray[np.int64]  # [B]
    input_ids: Tensor  # [B, L]
    attention_mask: Tensor  # [B, L], 1 at tokens
    segment_ids: Tensor  # [B, L], 0 or 1; 0 at padding


class PairTokens:
    """N pairs, each distinct sentence tokenised once.

    A pair of more than ``max_length`` tokens loses tokens from the end of its longer sentence (of
    two equally long ones, the hypothesis); ``truncated`` counts such pairs.
    """

    def __init__(
        self,
        premises: Sequence[str],
        hypotheses: Sequence[str],
        tokenizer: Tokenizer,
        max_length: int,
    ) -> None:
        if max_length < SPECIAL + 2:
            raise InputError(f"max_length is {max_length}; expected at least {SPECIAL + 2}")
        self.vocabulary = VocabularyInfo.from_tokenizer(tokenizer)
        distinct = list(dict.fromkeys([*premises, *hypotheses]))
        ids = dict(zip(distinct, ids_of(tokenizer, distinct), strict=True))
        self.truncated = 0
        self._pairs: list[tuple[list[int], list[int]]] = []
        for premise, hypothesis in zip(premises, hypotheses, strict=True):
            first, second = ids[premise], ids[hypothesis]
            if len(first) + len(second) + SPECIAL > max_length:
                first, second = _cut(first, second, max_length - SPECIAL)
                self.truncated += 1
            self._pairs.append((first, second))
        self.lengths_N = np.array([len(a) + len(b) + SPECIAL for a, b in self._pairs], np.int64)

    def __len__(self) -> int:
        return len(self._pairs)

    def batch(self, rows: Sequence[int] | NDArray[np.int64]) -> PairBatch:
        """The pairs ``rows``, padded to their longest."""
        chosen = np.asarray(rows, dtype=np.int64)
        start, between, pad = self.vocabulary.cls_, self.vocabulary.sep, self.vocabulary.pad
        pairs = [self._pairs[row] for row in chosen]
        sequences = [torch.tensor([start, *a, between, *b, between]) for a, b in pairs]
        ids_BL = pad_sequence(sequences, batch_first=True, padding_value=pad)
        place_L = torch.arange(ids_BL.shape[1])
        mask_BL = place_L < torch.from_numpy(self.lengths_N[chosen])[:, None]
        segment_BL = mask_BL & (place_L >= torch.tensor([[len(a) + 2] for a, _ in pairs]))
        return PairBatch(chosen, ids_BL, mask_BL.long(), segment_BL.long())

    def by_length(self, size: int) -> Iterator[PairBatch]:
        """All pairs, shortest first, in batches of ``size``."""
        order = np.argsort(self.lengths_N, kind="stable")
        for start in range(0, len(order), size):
            yield self.batch(order[start : start + size])


def _cut(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """Shorten both sentences until they have ``room`` tokens together."""
    a, b = len(first), len(second)
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    return first[:a], second[:b]
