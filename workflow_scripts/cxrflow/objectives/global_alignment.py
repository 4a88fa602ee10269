"""Global alignment of images and impressions: BioViL section 2.2, Eq. 2."""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.contrastive import symmetric_contrastive


def global_alignment(image_NP: Tensor, text_NP: Tensor, temperature: float = 0.5) -> Tensor:
    """Match N images with their N impressions in the L2-normalised joint space; a scalar."""
    return symmetric_contrastive(normalize(image_NP, dim=1), normalize(text_NP, dim=1), temperature)
