"""Masked language modelling: BioViL section 2.1."""

from typing import Literal

from torch import Tensor, nn


def masked_language_modelling(
    logits_MV: Tensor,
    targets_M: Tensor,
    sequences: int,
    reduction: Literal["token", "sequence"] = "token",
) -> Tensor:
    """Cross-entropy at the M masked positions of a batch of ``sequences`` token vectors; a scalar.

    The paper writes ``-1/|B| sum_w log p(w_m | w_rest)``: the sum over the masked tokens of a
    sequence, mean over the sequences (``sequence``). The library it trained with averages over
    masked tokens (``token``, default), and lambda_MLM = 0.1 only balances Eq. 1 with that one.
    """
    if targets_M.numel() == 0:
        return logits_MV.sum() * 0.0
    total = nn.functional.cross_entropy(logits_MV.float(), targets_M, reduction="sum")
    return total / (targets_M.numel() if reduction == "token" else sequences)
