"""Global alignment of images and impressions: BioViL section 2.2, Eq. 2."""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.contrastive import ALL, symmetric_contrastive


def global_alignment(
    image_NP: Tensor, text_NP: Tensor, temperature: float = 0.5, own: slice = ALL
) -> Tensor:
    """Match N images with their N impressions in the L2-normalised joint space; a scalar.

    ``own``: the share of one of several processes, see :func:`symmetric_contrastive`.
    """
    image_NP, text_NP = (normalize(one.float(), dim=1) for one in (image_NP, text_NP))
    return symmetric_contrastive(image_NP, text_NP, temperature, own)
