"""Dynamic whole-word masking for MLM (BioViL section 2.1: "dynamic whole-word masking").

*Words* are BERT's: a piece and the ``##`` pieces that follow it. *Selection*: every word is chosen
independently with probability ``rate``, as RoBERTa's and transformers' collators do; the expected
share of chosen tokens is then ``rate``, and it varies from row to row. All pieces of a chosen word
are predicted. *Replacement* is decided for each piece, as in BERT's script
(whole-word variant included): ``mask_share`` become [MASK], ``random_share`` an ordinary piece
drawn uniformly, the rest stay. Special tokens are neither chosen nor drawn.

Randomness is a function of (seed, epoch, key of the row, place in the row) only.
Shapes: ``B`` rows, ``L`` places, ``M`` predicted tokens, ``V`` pieces.
"""

from dataclasses import dataclass

import torch

from cxrflow.compute.keyed_random import BITS, row_state, threshold, uniform
from cxrflow.text.settings import MaskingSettings
from cxrflow.text.tokenizer import VocabularyInfo

_SELECT, _REPLACE, _DRAW = 1, 2, 3  # streams


@dataclass(frozen=True)
class MaskedBatch:
    """Input of the model and the targets of its predictions."""

    input_ids: torch.Tensor  # [B, L], with the replacements
    positions: torch.Tensor  # [M] int64, places in input_ids.flatten(), ascending
    targets: torch.Tensor  # [M] int64, the true ids there


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
        # A draw of BITS bits times their number, shifted, is uniform over the ordinary pieces.
        random_ids = self._ordinary[(draw * len(self._ordinary)) >> BITS]
        new = torch.where(action < self._random_below, random_ids, targets)
        new = torch.where(action < self._mask_below, self._mask_id, new)
        return input_ids.flatten().index_copy(0, positions, new).view_as(input_ids)
