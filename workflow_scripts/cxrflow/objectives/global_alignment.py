"""Global alignment of images and texts: BioViL section 2.2, Eq. 2; ConVIRT section 3.2, Eq. 4."""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.contrastive import ALL, symmetric_contrastive


def global_alignment(
    image_NP: Tensor,
    text_NP: Tensor,
    temperature: float = 0.5,
    rows: slice = ALL,
    image_to_text: float = 0.5,
) -> Tensor:
    """Match N images with their N texts in the L2-normalised joint space; a scalar.

    BioViL's Eq. 2 sums both directions; ConVIRT's Eq. 4 gives the share lambda, here
    ``image_to_text``, to the one that finds the text of an image, and 1 - lambda to the other.
    This is twice ConVIRT's sum, which at equal shares is Eq. 2.
    ``rows``: the pairs of this process, see :func:`symmetric_contrastive`.
    """
    image_NP, text_NP = (normalize(embedding.float(), dim=1) for embedding in (image_NP, text_NP))
    return symmetric_contrastive(image_NP, text_NP, temperature, rows, image_to_text)
