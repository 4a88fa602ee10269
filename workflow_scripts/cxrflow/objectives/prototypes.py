"""MGCA's prototype-level alignment (CPA): image and report are to share their prototypes.

Wang et al. 2022; MedCutMix (Eq. 7) trains with it. The code of an image says how much it belongs to
each prototype, with all prototypes used alike over a batch (Sinkhorn's algorithm, as in SwAV). It
is predicted from the report, and the report's code from the image.

Shapes: N samples of a batch, K prototypes, P width.
"""

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from cxrflow.objectives.biovil import ALL, products


@torch.no_grad()
def sinkhorn(score_NK: Tensor, iterations: int = 3, epsilon: float = 0.05) -> Tensor:
    """Codes [N, K] of samples, from their cosines with prototypes; each adds up to 1.

    Every iteration first makes the prototypes of the same size over the batch, then the samples. In
    float32 at least: exp(cosine / 0.05) has more range than half precision.
    """
    score_NK = score_NK.to(torch.promote_types(score_NK.dtype, torch.float32))
    samples, prototypes = score_NK.shape
    # A factor on all scores changes no code.
    code_NK = ((score_NK - score_NK.max()) / epsilon).exp()
    code_NK /= code_NK.sum()
    for _ in range(iterations):
        code_NK /= code_NK.sum(0, keepdim=True) * prototypes
        code_NK /= code_NK.sum(1, keepdim=True) * samples
    return code_NK / code_NK.sum(1, keepdim=True)


def codes(score_NK: Tensor, iterations: int, epsilon: float, group: int | None) -> Tensor:
    """Codes [N, K] by :func:`sinkhorn` over groups of neighbours; ``group`` None: over all."""
    groups = score_NK.split(group or len(score_NK))
    return torch.cat([sinkhorn(scores, iterations, epsilon) for scores in groups])


def code_prediction(code_NK: Tensor, score_NK: Tensor, temperature: float = 0.2) -> Tensor:
    """Cross-entropy [N] of codes with what the scores of the other modality predict."""
    return -(code_NK * log_softmax(score_NK / temperature, dim=1)).sum(1)


def prototype_alignment(
    image_NP: Tensor,
    text_NP: Tensor,
    prototype_KP: Tensor,
    temperature: float = 0.2,
    epsilon: float = 0.05,
    iterations: int = 3,
    group: int | None = None,
    rows: slice = ALL,
) -> Tensor:
    """The mean of both predictions over N samples; a scalar. All inputs are of length 1.

    ``rows`` takes the sum over these samples alone, still divided by N: the share of one of several
    processes. Codes are those of the batch in any case and have no gradient.

    >>> import torch
    >>> from cxrflow.losses import prototype_alignment
    >>> images, prototypes = torch.eye(4), torch.eye(4)
    >>> agreed = prototype_alignment(images, images, prototypes)
    >>> agreed < prototype_alignment(images, images.flip(0), prototypes)
    tensor(True)
    """
    image_NK, text_NK = (products(samples, prototype_KP) for samples in (image_NP, text_NP))
    image_code_NK, text_code_NK = (
        codes(scores, iterations, epsilon, group) for scores in (image_NK, text_NK)
    )
    losses = code_prediction(image_code_NK[rows], text_NK[rows], temperature)
    losses = losses + code_prediction(text_code_NK[rows], image_NK[rows], temperature)
    return losses.sum() / 2 / len(image_NP)
