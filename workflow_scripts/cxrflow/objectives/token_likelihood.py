"""Likelihood of tokens: masked words (BioViL section 2.1), and reports (BioViL-T Appendix F.1)."""

from torch import Tensor, nn


def masked_language_modelling(logits_MV: Tensor, targets_M: Tensor, divisor: int) -> Tensor:
    """Cross-entropy summed over M masked positions, divided by ``divisor``; a scalar.

    The paper writes ``-1/|B| sum_w log p(w_m | w_rest)``: the sum over the masked tokens of a
    sequence, mean over the sequences, so that ``divisor`` is their number. The library it trained
    with averages over masked tokens, and lambda_MLM = 0.1 only balances Eq. 1 with that one. Where
    a batch is computed in parts, the divisor is that of the whole batch. Without masked positions
    the loss is zero, with a gradient.
    """
    if targets_M.numel() == 0:
        return logits_MV.sum() * 0.0
    return nn.functional.cross_entropy(logits_MV.float(), targets_M, reduction="sum") / divisor


def report_likelihood(logits_TV: Tensor, targets_T: Tensor, tokens: int) -> Tensor:
    """Minus the sum of log p(w_t | w_<t, prior report, patches) over T tokens, over ``tokens``.

    ``tokens`` are those of the whole batch, of which T may be a share: a scalar.
    """
    return nn.functional.cross_entropy(logits_TV.float(), targets_T, reduction="sum") / tokens
