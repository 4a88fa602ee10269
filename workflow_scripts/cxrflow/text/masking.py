"""Dynamic whole-word masking for MLM (BioViL section 2.1: "dynamic whole-word masking").

*Words* are BERT's: a piece and the ``##`` pieces that follow it. *Selection*: by default every
word is chosen independently with probability ``rate``, as RoBERTa's and transformers' collators
do; the expected share of chosen tokens is then ``rate``, and it varies from row to row. With
``selection="budget"`` words are taken in random order, skipping those that would overshoot, until
``max(1, round(rate × tokens))`` tokens of the row are chosen, as BERT's data script does.
All pieces of a chosen word are predicted. *Replacement* is decided for each piece, as in BERT's
script (whole-word variant included): ``mask_share`` become [MASK], ``random_share`` an ordinary
piece drawn uniformly, the rest stay. Special tokens are neither chosen nor drawn.

Randomness is a function of (seed, epoch, key of the row, place in the row) only.
Shapes: ``B`` rows, ``L`` places, ``M`` predicted tokens, ``V`` pieces.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from cxrflow.keyed_random import BITS, row_state, threshold, uniform
from cxrflow.text.settings import MaskingSettings
from cxrflow.text.tokenizer import VocabularyInfo

_SELECT, _REPLACE, _DRAW = 1, 2, 3  # streams


@dataclass(frozen=True)
class MaskedBatch:
    """What the model reads and what it must predict."""

    input_ids: torch.Tensor  # [B, L], with the replacements
    positions: torch.Tensor  # [M] int64, places in input_ids.flatten(), ascending
    targets: torch.Tensor  # [M] int64, the true ids there


class WordMasker:
    """Masks batches on whatever device they are."""

    def __init__(
        self,
        vocabulary: VocabularyInfo,
        rate: float = 0.15,
        mask_share: float = 0.8,
        random_share: float = 0.1,
        unit: Literal["word", "token"] = "word",
        selection: Literal["independent", "budget"] = "independent",
    ) -> None:
        self._rate = rate
        self._mask_id = vocabulary.mask
        self._mask_below = threshold(mask_share)
        self._random_below = threshold(mask_share + random_share)
        self._budget = selection == "budget"
        continues = torch.from_numpy(vocabulary.continues)
        self._continues = continues if unit == "word" else torch.zeros_like(continues)
        self._special = torch.from_numpy(vocabulary.special)
        self._ordinary = torch.nonzero(~self._special).flatten()

    @classmethod
    def from_settings(cls, vocabulary: VocabularyInfo, settings: MaskingSettings) -> "WordMasker":
        """The masker a settings object describes."""
        return cls(vocabulary, **settings.model_dump())

    def __call__(
        self,
        input_ids: torch.Tensor,
        maskable: torch.Tensor,
        keys: torch.Tensor,
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
        draw = uniform(state, first)
        if self._budget:
            chosen = _within_budget(draw, first, candidates, self._rate)
        else:
            chosen = candidates & (draw < threshold(self._rate))
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

    def _word_starts(self, input_ids: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
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
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        targets: torch.Tensor,
        keys: torch.Tensor,
        seed: int,
        epoch: int,
    ) -> torch.Tensor:
        length = input_ids.shape[1]
        row, place = positions // length, positions % length
        action = uniform(row_state(keys, seed, epoch, _REPLACE)[row], place)
        draw = uniform(row_state(keys, seed, epoch, _DRAW)[row], place)
        random_ids = self._ordinary[(draw * len(self._ordinary)) >> BITS]
        new = torch.where(action < self._random_below, random_ids, targets)
        new = torch.where(action < self._mask_below, self._mask_id, new)
        return input_ids.flatten().index_copy(0, positions, new).view_as(input_ids)


def _within_budget(
    draw: torch.Tensor, first: torch.Tensor, candidates: torch.Tensor, rate: float
) -> torch.Tensor:
    """``[B, L]``: BERT's rule. Words in the order of ``draw``; one that overshoots is skipped.

    Each turn fixes the words before the first overshoot of every row and drops, of the later
    ones, all that can no longer fit; what is left shrinks, so the turns are fewer than the pieces
    of the longest word.
    """
    batch, length = draw.shape
    sizes = torch.zeros_like(draw).scatter_add_(1, first, candidates.to(draw.dtype))
    tokens = candidates.sum(dim=1, keepdim=True)
    budget = torch.where(tokens > 0, (tokens * rate).round().long().clamp(min=1), 0)
    is_word = sizes > 0  # at the place where the word starts
    order = torch.where(is_word, draw, 1 << BITS).argsort(dim=1, stable=True)
    ordered = sizes.gather(1, order)
    taken = ordered > 0
    while True:
        total = (ordered * taken).cumsum(dim=1)
        over = taken & (total > budget)
        if not bool(over.any()):
            break
        # Everything before the first overshoot is settled; room is what it leaves.
        after = over.cummax(dim=1).values
        room = budget - (ordered * (taken & ~after)).sum(dim=1, keepdim=True)
        taken = taken & ~(after & (ordered > room))
    chosen = torch.zeros_like(taken).scatter_(1, order, taken)
    return candidates & chosen.gather(1, first)
