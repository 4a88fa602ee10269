"""SimCLR's normalised temperature-scaled cross-entropy (Chen et al. 2020, Eq. 1).

BioViL section 2.2 and Appendix E.2 pretrain the image encoder with it; the temperature is not
given there, 0.1 is the default of the implementation the released configuration used.
"""

import torch
from torch import Tensor, nn


def nt_xent(first_NP: Tensor, second_NP: Tensor, temperature: float = 0.1) -> Tensor:
    """Mean over the 2N views of ``-log exp(s(i, j)/t) / sum_{k != i} exp(s(i, k)/t)``; a scalar.

    ``first_NP[i]`` and ``second_NP[i]`` are two views of image i; s is the cosine.
    """
    views = nn.functional.normalize(torch.cat([first_NP, second_NP]).float(), dim=1)
    logits = views @ views.T / temperature
    logits = logits.masked_fill(
        torch.eye(len(logits), dtype=torch.bool, device=logits.device), float("-inf")
    )
    count = len(first_NP)
    target = torch.arange(2 * count, device=logits.device).roll(count)
    return nn.functional.cross_entropy(logits, target)
