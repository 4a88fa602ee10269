"""Classification of image–text pairs as real or fake (ConVIRT section 4.3, binary loss).

Shapes: I real pairs of this process, and as many fake ones.
"""

import torch
from torch import Tensor, nn


def pair_matching(real_I: Tensor, fake_I: Tensor, pairs: int) -> Tensor:
    """Binary cross-entropy of the logits that a pair is real; a scalar.

    The sum over this process's pairs, divided by twice the ``pairs`` of all processes.

    >>> import torch
    >>> from cxrflow.losses import pair_matching
    >>> round(pair_matching(torch.zeros(2), torch.zeros(2), pairs=2).item(), 3)  # log 2: no idea
    0.693
    """
    logits, targets = (
        torch.cat(real_and_fake).float()
        for real_and_fake in ((real_I, fake_I), (torch.ones_like(real_I), torch.zeros_like(fake_I)))
    )
    summed = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    return summed / (2 * pairs)
