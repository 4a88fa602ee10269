"""The symmetric contrastive cross-entropy shared by section matching and global alignment."""

import torch
from torch import Tensor, nn

ALL = slice(None)


def symmetric_contrastive(
    a_NP: Tensor, b_NP: Tensor, temperature: float, rows: slice = ALL, first_share: float = 0.5
) -> Tensor:
    """Sum of both directions' cross-entropies of row i against all rows, mean over N.

    Right-hand side of BioViL Eq. 1 and 2: ``-1/N sum_i (log softmax_j(a_i.b_j/t)[i] +
    log softmax_j(b_i.a_j/t)[i])``. The callers normalise the inputs. ``rows``
    takes the sum over these i alone, still divided by N: the share of one of several processes.
    ``first_share`` weighs the direction from a to b; see :func:`symmetric_cross_entropy`.
    """
    return symmetric_cross_entropy(a_NP.float() @ b_NP.float().T / temperature, rows, first_share)


def symmetric_cross_entropy(logits_NN: Tensor, rows: slice = ALL, row_share: float = 0.5) -> Tensor:
    """Cross-entropies of ``rows`` and of these columns, over N; targets are the diagonal.

    Rows count ``2 row_share`` times and columns ``2 (1 - row_share)`` times, so that equal shares
    are the plain sum of both.
    """
    target = torch.arange(len(logits_NN), device=logits_NN.device)[rows]
    row_sum, column_sum = (
        nn.functional.cross_entropy(logits[rows], target, reduction="sum")
        for logits in (logits_NN, logits_NN.T)
    )
    return (2 * row_share * row_sum + 2 * (1 - row_share) * column_sum) / len(logits_NN)
