"""How probable words are after a text, by a report decoder (BioViL-T Appendix F.4).

A word of several pieces has the product of their probabilities, each after those before it. Nothing
is asked of what follows its last piece.

Shapes: B studies, W words, M patches of width P, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.report_decoder import ReportDecoder


@torch.inference_mode()
def next_words(
    decoder: ReportDecoder,
    prefixes: Sequence[Sequence[int]],
    words: Sequence[Sequence[int]],
    patches_BMP: Tensor,
) -> Tensor:
    """Probabilities [B, W], float32, of ``words``, ids of their pieces, after each prefix."""
    begun = {tuple(word[:place]) for word in words for place in range(len(word))}
    log_BV = {pieces: _next(decoder, prefixes, pieces, patches_BMP) for pieces in sorted(begun)}
    log_WB = [
        torch.stack([log_BV[tuple(word[:place])][:, piece] for place, piece in enumerate(word)])
        .sum(0)
        for word in words
    ]  # fmt: skip
    return torch.stack(log_WB, dim=1).exp()


def _next(
    decoder: ReportDecoder,
    prefixes: Sequence[Sequence[int]],
    pieces: Sequence[int],
    patches_BMP: Tensor,
) -> Tensor:
    """Log-probabilities [B, V] of the token after each prefix and these pieces."""
    rows = [torch.tensor([*prefix, *pieces]) for prefix in prefixes]
    ids_BL = pad_sequence(rows, batch_first=True)
    mask_BL = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    last_B = mask_BL.sum(1) - 1 + torch.arange(len(rows)) * ids_BL.shape[1]
    device = patches_BMP.device
    logits_BV = decoder(sent(ids_BL, device), mask_BL, patches_BMP, sent(last_B, device))
    return logits_BV.float().log_softmax(dim=1)
