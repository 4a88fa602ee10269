"""MedCutMix (Wang et al. 2026): regions that sentences attend to, and images mixed by them.

Shapes: N pairs of a source and a target, M patches, W words, P joint space.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from cxrflow.objectives.biovil import products

Summary = Literal["clip", "printed", "max", "mean"]


@torch.no_grad()
def sentence_regions(
    patch_NMP: Tensor,
    word_NWP: Tensor,
    is_word_NW: Tensor,
    temperature: float = 0.005,
    summary: Summary = "clip",
) -> Tensor:
    """How much of each patch belongs to a diagnostic sentence, C of Eq. 2: [N, M], no gradient.

    Every word spreads 1 over the patches, by a softmax of dot products with them; patches and words
    are of length 1. ``is_word_NW`` says which words are the sentence's, at least one. As printed,
    C is the sum over the words, and up to W. ``clip`` cuts it at 1, ``max`` divides it by its
    largest value, ``mean`` by the number of words. In float32 at least, in mixed precision too: a
    cosine of 8 bits, divided by such a temperature, is off by up to 0.8.

    >>> import torch
    >>> from cxrflow.losses import sentence_regions
    >>> patches = torch.eye(4)[None]  # one image of four patches
    >>> words = torch.eye(4)[None, :2]  # two words, like the first patch and the second
    >>> sentence_regions(patches, words, torch.tensor([[True, False]])).round()
    tensor([[1., 0., 0., 0.]])
    """
    weight_NWM = (products(word_NWP, patch_NMP) / temperature).softmax(2) * is_word_NW[:, :, None]
    region_NM = weight_NWM.sum(1)
    if summary == "max":
        return region_NM / region_NM.amax(1, keepdim=True)
    if summary == "mean":
        return region_NM / is_word_NW.sum(1, keepdim=True)
    return region_NM.clamp(max=1) if summary == "clip" else region_NM


def mixed_features(
    source: Tensor, target: Tensor, region_Nhw: Tensor, cls_share_N: Tensor
) -> Tensor:
    """Features of the sources in their regions, of the targets elsewhere (Eq. 4).

    Features of a ResNet are [N, C, H, W]: a cell belongs to the patch of the region's grid that it
    lies in. Those of a transformer are [N, 1 + M, D], [CLS] first, of which the source's share is
    ``cls_share_N``; the equation does not cover it.

    >>> import torch
    >>> from cxrflow.losses import mixed_features
    >>> source, target = torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2)
    >>> region = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    >>> mixed_features(source, target, region, cls_share_N=torch.zeros(1))[0, 0].tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    if source.dim() == 4:
        share = nn.functional.interpolate(region_Nhw[:, None], source.shape[2:], mode="nearest")
    else:
        share = torch.cat([cls_share_N[:, None], region_Nhw.flatten(1)], dim=1)[:, :, None]
    share = share.to(source.dtype)
    return share * source + (1 - share) * target
