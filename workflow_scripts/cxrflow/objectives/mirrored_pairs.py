"""Sides: an image and its mirror image, and the text of each, told apart (of no paper).

Mirrored, an image belongs with its text only after left and right have been exchanged in it. That
makes a negative of the hardest kind: the same words but one, the same pixels in another place.
"""

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, normalize

from cxrflow.objectives.biovil import products


def side_scores(images_N2P: Tensor, texts_N2P: Tensor, temperature: float) -> Tensor:
    """Scores [N, 2, 2] of an image and its mirror image beside a text and its exchanged form.

    They are cosines over the temperature.

    >>> import torch
    >>> from cxrflow.losses import side_scores
    >>> images, texts = torch.eye(2)[None], torch.eye(2)[None]  # an image and its mirror image
    >>> side_scores(images, texts, temperature=0.5).tolist()
    [[[2.0, 0.0], [0.0, 2.0]]]
    """
    images, texts = (normalize(sides_N2P.float(), dim=2) for sides_N2P in (images_N2P, texts_N2P))
    return products(images, texts) / temperature


def mirrored_pairs(score_N22: Tensor, divisor: int) -> Tensor:
    """BioViL's Eq. 2 within each batch of two, summed over N and divided; a scalar.

    The two pairs are an image with its text, and both mirrored. Without a pair the loss is zero,
    with a gradient.

    >>> import torch
    >>> from cxrflow.losses import mirrored_pairs
    >>> round(mirrored_pairs(torch.zeros(1, 2, 2), divisor=1).item(), 3)  # 2 log 2: sides are alike
    1.386
    """
    rows, columns = (log_softmax(score_N22, dim=dim) for dim in (2, 1))
    likelihood_N = (rows + columns).diagonal(dim1=1, dim2=2).mean(dim=1)
    return -torch.sum(likelihood_N) / max(1, divisor)
