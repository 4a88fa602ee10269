"""Attention rollout: where in two images the difference features of a patch come from.

Abnar and Zuidema 2020, as BioViL-T applies it to its comparison of two images (Appendix A.3). The
encoder's blocks fuse their attention, so that its weights never exist there; here they are computed
from what each block's attention is given, beside a forward pass that stays as it is.

Shapes: B studies, L patches of an image, T = 2 L tokens, those of the current image first.
"""

from typing import Any

import torch
from torch import Tensor

from cxrflow.encoders.cross_attention import by_head
from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.multi_image import TokenAttention, Trunk


def attention_weights(attention: TokenAttention, tokens_BTD: Tensor) -> Tensor:
    """softmax(q k' / sqrt(d)) of every head, [B, heads, T, T]; a row is a token that looks."""
    q_BHTd = by_head(attention.proj_q(tokens_BTD), attention.heads)
    k_BHTd = by_head(attention.proj_k(tokens_BTD), attention.heads)
    scores = q_BHTd @ k_BHTd.transpose(-1, -2) / q_BHTd.shape[-1] ** 0.5
    return scores.softmax(-1)


def block_attention(trunk: Trunk, frames: Frames[Tensor]) -> list[Tensor]:
    """Return each block's attention, [B, T, T], mean over its heads; all studies have a prior."""
    weights: list[Tensor] = []

    def record(attention: TokenAttention, inputs: tuple[Any, ...]) -> None:
        weights.append(attention_weights(attention, inputs[0]).mean(1))

    blocks: Any = trunk.vit_pooler.blocks
    hooks = [block.attn.register_forward_pre_hook(record) for block in blocks]
    try:
        trunk(frames)
    finally:
        for hook in hooks:
            hook.remove()
    return weights


def keep_greatest(weights_BTT: Tensor, share: float) -> Tensor:
    """The greatest ``share`` of the weights of each study's matrix; the others are 0."""
    flat = weights_BTT.flatten(1)
    count = max(1, round(share * flat.shape[1]))
    least_B1 = flat.topk(count, dim=1).values[:, -1:]
    return flat.where(flat >= least_B1, 0).view_as(weights_BTT)


def rollout(blocks: list[Tensor], share: float) -> Tensor:
    """How much of each current patch's features comes from each token, [B, L, T]; rows sum to 1.

    The product over the blocks of their greatest weights plus the identity, which stands for the
    residual connection. Rows are brought to the sum 1 before the product, as in the cited paper.
    """
    tokens = blocks[0].shape[-1]
    identity = torch.eye(tokens, dtype=blocks[0].dtype, device=blocks[0].device)
    total = identity[: tokens // 2]
    for weights_BTT in reversed(blocks):
        flow_BTT = keep_greatest(weights_BTT, share) + identity
        total = total @ (flow_BTT / flow_BTT.sum(-1, keepdim=True))
    return total
