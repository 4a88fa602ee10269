"""MGCA's token-wise alignment (CTA): the words of a report and the patches of its image.

Wang et al. 2022, with the weights and temperatures of its published code; MedCutMix (Eq. 7) trains
with it. Words look at patches, patches at words, inside one pair. A token is then to be found again
by what it saw among what the others saw, and the other way round::

    c_i = sum_j softmax_j(t_i . u_j / tau) u_j                      what token i saw, of length 1
    s_ik = t_i . c_k / tau
    loss = 1/2 sum_i w_i (-log softmax_k(s_ik)[i] - log softmax_k(s_ki)[i])

The loss of a pair is the sum of that of its words and that of its patches. The weights w of a
token are those with which [CLS] attends to it in the last layer.

Shapes: B pairs, W words of the longest report, M patches, P width; N tokens of either kind.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

QUANTILES = (0.1, 0.9)  # to which weights are clipped, in the published code


@dataclass(frozen=True)
class TokenMatching:
    """How the tokens of a pair are compared.

    ``padding``: padding words stand among those that a word is to be told from (published code).
    ``unit_context``: what a patch saw is of length 1, as what a word saw always is. The published
    code leaves it out for transformers.

    >>> from cxrflow.losses import TokenMatching
    >>> TokenMatching(unit_context=False)  # as the published code does for transformers
    TokenMatching(temperature=0.1, padding=False, unit_context=False)
    """

    temperature: float = 0.1
    padding: bool = False
    unit_context: bool = True


def token_alignment(
    word_BWP: Tensor,
    is_word_BW: Tensor,
    word_weight_BW: Tensor,
    patch_BMP: Tensor,
    patch_weight_BM: Tensor,
    matching: TokenMatching = TokenMatching(),
) -> Tensor:
    """The loss of each pair, [B], in float32 (float64 for float64 tokens).

    Tokens are brought to length 1 here. ``is_word_BW`` (bool) is false at padding, to which no
    patch looks. The weights of a text or an image add up to 1 (:func:`token_weights`); those of
    padding are zero.

    >>> import torch
    >>> from cxrflow.losses import token_alignment
    >>> words = patches = torch.eye(2)[None]  # one pair of two words and two patches
    >>> weights = torch.full((1, 2), 0.5)
    >>> loss = token_alignment(words, torch.ones(1, 2, dtype=torch.bool), weights, patches, weights)
    >>> loss.shape
    torch.Size([1])
    """
    kind = torch.promote_types(torch.promote_types(word_BWP.dtype, patch_BMP.dtype), torch.float32)
    tau = matching.temperature
    with torch.autocast(word_BWP.device.type, enabled=False):
        word_BWP, patch_BMP = (
            normalize(tokens.to(kind), dim=2) for tokens in (word_BWP, patch_BMP)
        )
        score_BWM = word_BWP @ patch_BMP.mT / tau
        seen_BWP = normalize(score_BWM.softmax(2) @ patch_BMP, dim=2)
        seen_BMP = score_BWM.mT.masked_fill(~is_word_BW[:, None], -torch.inf).softmax(2) @ word_BWP
        if matching.unit_context:
            seen_BMP = normalize(seen_BMP, dim=2)
        counts_BW = torch.ones_like(is_word_BW) if matching.padding else is_word_BW
        words_B = _matched(word_BWP @ seen_BWP.mT / tau, word_weight_BW.to(kind), counts_BW)
        patches_B = _matched(patch_BMP @ seen_BMP.mT / tau, patch_weight_BM.to(kind))
        return words_B + patches_B


def _matched(score_BNN: Tensor, weight_BN: Tensor, counts_BN: Tensor | None = None) -> Tensor:
    """Weighted cross-entropies of rows and columns with the diagonal, halved, [B].

    ``counts_BN``: the tokens among which the right one is to be found; None: all.
    """
    rows_BNN, columns_BNN = score_BNN, score_BNN.mT
    if counts_BN is not None:
        rows_BNN, columns_BNN = (
            score.masked_fill(~counts_BN[:, None], -torch.inf) for score in (rows_BNN, columns_BNN)
        )
    right_BN = score_BNN.diagonal(dim1=1, dim2=2)
    loss_BN = rows_BNN.logsumexp(2) + columns_BNN.logsumexp(2) - 2 * right_BN
    return (weight_BN * loss_BN).sum(1) / 2


@torch.no_grad()
def token_weights(attention_BN: Tensor) -> Tensor:
    """Weights of tokens that add up to 1, from the attention of [CLS] to each, [B, N].

    Of each text or image they are clipped to the 10 and 90 % quantiles of what is not zero.
    Padding has zero and keeps it. If nothing else is there, that is a ValueError on a CPU; a GPU,
    which would have to be waited for, gives NaN.

    >>> import torch
    >>> from cxrflow.losses import token_weights
    >>> token_weights(torch.tensor([[0.2, 0.2, 0.0]])).tolist()  # the last is padding
    [[0.5, 0.5, 0.0]]
    """
    attention_BN = attention_BN.to(torch.promote_types(attention_BN.dtype, torch.float32))
    count_B1 = (attention_BN > 0).sum(1, keepdim=True)
    if attention_BN.device.type == "cpu" and not bool((count_B1 > 0).all()):
        raise ValueError("a text or an image has no token to which [CLS] attends")
    sorted_BN = attention_BN.masked_fill(attention_BN <= 0, torch.inf).sort(1).values
    bounds = []
    for quantile in QUANTILES:  # between the two nearest values, as torch.quantile
        rank_B1 = quantile * (count_B1 - 1).clamp(min=0).to(sorted_BN.dtype)
        below_B1, above_B1 = (
            sorted_BN.gather(1, place.long()) for place in (rank_B1.floor(), rank_B1.ceil())
        )
        bounds.append(below_B1.lerp(above_B1, rank_B1.frac()))
    clipped_BN = attention_BN.clamp(*bounds).masked_fill(attention_BN <= 0, 0)
    return clipped_BN / clipped_BN.sum(1, keepdim=True)
