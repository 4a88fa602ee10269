"""Word embeddings from the states of word pieces, as local alignment takes them.

GLoRIA (Huang et al. 2021), whose local loss BioViL-T section 3.2 trains with: the embedding of a
word is the sum of its pieces' states, and of these the sum over BERT's last four layers. MGCA takes
the last layer alone. All words of a batch are summed in one pass over the pieces.

Shapes: B texts of L pieces, W words of the longest, D features, V pieces of the vocabulary.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cxrflow.compute.device_copy import sent


class Words(NamedTuple):
    """The words of B texts, each text's first."""

    word_BWD: Tensor  # zero behind a text's last word
    lengths: list[int]  # words of each text; 0 where every piece is dropped


def aggregate_words(
    layers: Sequence[Tensor],
    piece_BL: Tensor,
    continues_V: Tensor,
    dropped_V: Tensor,
) -> Words:
    """Sum the states of every word's pieces, over ``layers`` of states [B, L, D].

    ``continues_V`` is true for pieces that continue the word before them ("##" in WordPiece); the
    first piece that a text keeps begins a word in any case. ``dropped_V`` is true for pieces that
    belong to no word: [SEP] and [PAD], and [CLS] too unless it is to count as a word as in GLoRIA.
    Both are tables by id. Where ``piece_BL`` is there the words are found, best on the CPU,
    as their number depends on its values. Raises :class:`ValueError` for states and ids that do
    not fit.
    """
    if not layers or any(layer.shape[:2] != piece_BL.shape for layer in layers):
        shapes = [tuple(layer.shape) for layer in layers]
        raise ValueError(f"layers of states {shapes} do not fit ids {tuple(piece_BL.shape)}")
    kept_BL = ~dropped_V[piece_BL]
    first_BL = kept_BL & (kept_BL.cumsum(1) == 1)
    begins_BL = first_BL | (kept_BL & ~continues_V[piece_BL])
    lengths_B = begins_BL.sum(1)
    longest = int(lengths_B.max())
    text_B1 = torch.arange(len(piece_BL), device=piece_BL.device)[:, None]
    word_K = (text_B1 * longest + begins_BL.cumsum(1) - 1)[kept_BL]  # K pieces are kept
    pieces_X = torch.bincount(word_K, minlength=len(piece_BL) * longest)  # X: all B * W words
    state_BLD = reduce(torch.add, layers)
    # The pieces of a word stand next to each other among the kept; a word without any gets zeros.
    word_XD = nn.functional.embedding_bag(
        sent(kept_BL.flatten().nonzero().flatten(), state_BLD.device),
        state_BLD.flatten(0, 1),
        sent(pieces_X.cumsum(0) - pieces_X, state_BLD.device),
        mode="sum",
    )
    return Words(word_XD.unflatten(0, (len(piece_BL), longest)), lengths_B.tolist())
