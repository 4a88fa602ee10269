"""Doubly stochastic attention: Xu et al. 2015 (Show, Attend and Tell), second part of Eq. 14."""

from torch import Tensor


def doubly_stochastic(attended_BM: Tensor, images: int) -> Tensor:
    """Mean of (1 - sum over t of alpha_ti)^2 over M patches and ``images``: a scalar.

    ``attended_BM`` is what B images' patches got of the attention over all words; ``images`` are
    those of the whole batch, of which B may be a share. Eq. 14 adds the sum over patches to the
    log-likelihood of a whole caption; the mean stands beside the mean over words, as in published
    PyTorch code.

    >>> import torch
    >>> from cxrflow.losses import doubly_stochastic
    >>> doubly_stochastic(torch.tensor([[1.0, 1.0, 0.0, 0.0]]), images=1)  # half is looked at
    tensor(0.5000)
    """
    return (1 - attended_BM.float()).square().mean(1).sum() / images
