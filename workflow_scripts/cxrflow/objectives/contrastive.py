"""The symmetric contrastive cross-entropy shared by section matching and global alignment."""

import torch
from torch import Tensor, nn

ALL = slice(None)


def symmetric_contrastive(
    a_NP: Tensor, b_NP: Tensor, temperature: float, own: slice = ALL, first_share: float = 0.5
) -> Tensor:
    """Sum of both directions' cross-entropies of row i against all rows, mean over N.

    Right-hand side of BioViL Eq. 1 and 2: ``-1/N sum_i (log softmax_j(a_i.b_j/t)[i] +
    log softmax_j(b_i.a_j/t)[i])``. Inputs are used as given; the callers normalise. ``own`` takes
    the sum over these i alone, still divided by N: the share of one of several processes.
    ``first_share`` is what the direction from a to b has of both; see
    :func:`symmetric_cross_entropy`.
    """
    return symmetric_cross_entropy(a_NP.float() @ b_NP.float().T / temperature, own, first_share)


def symmetric_cross_entropy(logits_NN: Tensor, own: slice = ALL, row_share: float = 0.5) -> Tensor:
    """Cross-entropies of rows and of columns ``own``, whose targets lie on the diagonal, over N.

    Rows count ``2 row_share`` times and columns ``2 (1 - row_share)`` times, so that equal shares
    are the plain sum of both.
    """
    target = torch.arange(len(logits_NN), device=logits_NN.device)[own]
    rows, columns = (
        nn.functional.cross_entropy(logits[own], target, reduction="sum")
        for logits in (logits_NN, logits_NN.T)
    )
    return (2 * row_share * rows + 2 * (1 - row_share) * columns) / len(logits_NN)
