"""Real pairs of image and text told from fake ones (ConVIRT section 4.3, Contrastive-Binary-Loss).

Shapes: I pairs of this process, each of which has a fake one.
"""

import torch
from torch import Tensor, nn


def pair_matching(real_I: Tensor, fake_I: Tensor, pairs: int) -> Tensor:
    """Binary cross-entropy of the logits that a pair is real; a scalar.

    The mean over twice the number of all ``pairs``, real and fake: of several processes, the share
    of this one.
    """
    logits, targets = (
        torch.cat(both).float()
        for both in ((real_I, fake_I), (torch.ones_like(real_I), torch.zeros_like(fake_I)))
    )
    summed = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    return summed / (2 * pairs)
