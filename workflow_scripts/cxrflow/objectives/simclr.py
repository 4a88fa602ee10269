"""SimCLR's normalised temperature-scaled cross-entropy (Chen et al. 2020, Eq. 1).

BioViL section 2.2 and Appendix E.2 pretrain the image encoder with it; the temperature is not
given there, 0.1 is the default of the implementation the released configuration used.
"""

import torch
from torch import Tensor, nn

from cxrflow.objectives.biovil import ALL, products


def nt_xent(
    first_NP: Tensor, second_NP: Tensor, temperature: float = 0.1, rows: slice = ALL
) -> Tensor:
    """Mean over the 2N views of ``-log exp(s(i, j)/t) / sum_{k != i} exp(s(i, k)/t)``; a scalar.

    ``first_NP[i]`` and ``second_NP[i]`` are two views of image i; s is the cosine.
    ``rows`` takes the sum over both views of these images alone, still divided by 2N: the
    share of one of several processes.

    >>> import torch
    >>> from cxrflow.losses import nt_xent
    >>> first = torch.eye(3)  # a view of each of three images
    >>> nt_xent(first, first) < nt_xent(first, first.roll(1, 0))
    tensor(True)
    """
    views = nn.functional.normalize(torch.cat([first_NP, second_NP]).float(), dim=1)
    index = torch.arange(len(views), device=views.device)
    target = index.roll(len(first_NP))
    local_views = torch.cat([half[rows] for half in index.chunk(2)])
    logits = products(views[local_views], views) / temperature
    logits = logits.masked_fill(local_views[:, None] == index, float("-inf"))
    return nn.functional.cross_entropy(logits, target[local_views], reduction="sum") / len(views)
