"""The symmetric contrastive cross-entropy shared by section matching and global alignment."""

import torch
from torch import Tensor, nn


def symmetric_contrastive(a_NP: Tensor, b_NP: Tensor, temperature: float) -> Tensor:
    """Sum of both directions' cross-entropies of row i against all rows, mean over N.

    Right-hand side of BioViL Eq. 1 and 2: ``-1/N sum_i (log softmax_j(a_i.b_j/t)[i] +
    log softmax_j(b_i.a_j/t)[i])``. Inputs are used as given; the callers normalise.
    """
    logits_NN = a_NP.float() @ b_NP.float().T / temperature
    target_N = torch.arange(len(logits_NN), device=logits_NN.device)
    return nn.functional.cross_entropy(logits_NN, target_N) + nn.functional.cross_entropy(
        logits_NN.T, target_N
    )
