"""Momentum contrast (MoCo): He et al. 2020, Eq. 1 and Algorithm 1."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize


def momentum_contrast(
    query_NP: Tensor, key_NP: Tensor, queue_KP: Tensor, temperature: float, divisor: int
) -> Tensor:
    """Sum over N images of ``-log exp(q.k/t) / (exp(q.k/t) + sum_i exp(q.k_i/t))``; a scalar.

    A query q, normalised here, is told apart from the K keys k_i of other images by its own image's
    key k; keys are unit vectors and get no gradient. All is computed in the queue's data type,
    which is also that of k, in mixed precision too.
    ``divisor``: the samples of the whole batch, of which these N are one process's share.

    >>> import torch
    >>> from cxrflow.losses import momentum_contrast
    >>> queries, queue = torch.eye(3)[:2], torch.eye(3)[2:]  # two images, one key of another
    >>> loss = momentum_contrast(queries, queries, queue, temperature=0.5, divisor=2)
    >>> round(loss.item(), 3)
    0.127
    """
    query_NP, key_NP = normalize(query_NP.to(queue_KP.dtype), dim=1), key_NP.detach()
    with torch.autocast(query_NP.device.type, enabled=False):
        positive_N1 = torch.linalg.vecdot(query_NP, key_NP)[:, None]
        logits = torch.cat([positive_N1, query_NP @ queue_KP.T], dim=1) / temperature
    target_N = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return cross_entropy(logits, target_N, reduction="sum") / divisor
