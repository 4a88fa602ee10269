"""GLoRIA's local loss as one function (BioViL-T section 3.2, low-data study Eq. 2 to 4)."""

from collections.abc import Sequence

from torch import Tensor

from cxrflow.objectives.biovil import symmetric_cross_entropy
from cxrflow.objectives.local_alignment import Matching, local_similarity

GLORIA = Matching()  # its published code


def local_alignment(
    region_BMD: Tensor,
    word_BLD: Tensor,
    lengths: Sequence[int],
    temp3: float = 10.0,
    matching: Matching = GLORIA,
) -> Tensor:
    """Match the M regions of B images with the words of their B texts; a scalar.

    The cross-entropies of ``temp3`` times :func:`local_similarity` along rows and columns, summed;
    their mean over B. Text i is the first ``lengths[i]`` of its L words. The defaults are GLoRIA's
    published code.

    Raises:
        ValueError: shapes do not fit, or a length is not in 1 to L.

    >>> import torch
    >>> from cxrflow.losses import local_alignment
    >>> features = torch.eye(4)
    >>> regions = features.view(2, 2, 4)  # two images of two regions each
    >>> words = features.view(2, 2, 4)  # the words of text i are the regions of image i
    >>> loss = local_alignment(regions, words, lengths=[2, 2])
    >>> loss < local_alignment(regions, words.flip(0), lengths=[2, 2])
    tensor(True)
    """
    return symmetric_cross_entropy(
        temp3 * local_similarity(region_BMD, word_BLD, lengths, matching)
    )
