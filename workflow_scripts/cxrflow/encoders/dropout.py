"""Dropout, and attention with dropout, at the price of the arithmetic on a CPU.

There torch draws one value of a mask at a time, a fifth of the time of a small text encoder's step.
Here four values share a draw of 64 bits, so that a rate is a multiple of 2^-16. And torch's
attention with dropout looks for queries that see no key, of which there are none here. On a GPU
both are torch's own.

Shapes: H heads, Q queries, K keys of width d, after any leading dimensions.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, softmax

_STEPS = 1 << 16


class Dropout(nn.Dropout):
    """As torch's: in training a share ``p`` of values becomes zero, others grow by 1 / (1 - p)."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or not self.training or self.p in (0, 1):
            return super().forward(x)
        return x * dropout_factors(x, self.p)


def dropout_factors(like: Tensor, rate: float) -> Tensor:
    """Factors of the shape and type of ``like``, on a CPU: 0 for a share ``rate``, else
    1 / (1 - rate)."""
    factors: Tensor = torch.ops.cxrflow.dropout_factors(like.detach(), rate)
    return factors


# An operator, so that a compiled model draws what an uncompiled one does.
torch.library.define("cxrflow::dropout_factors", "(Tensor like, float rate) -> Tensor")


@torch.library.impl("cxrflow::dropout_factors", "CPU")
def _factors(like: Tensor, rate: float) -> Tensor:
    dropped = min(round(rate * _STEPS), _STEPS - 1)
    words = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    levels = words.view(torch.int16)[: like.numel()].view(like.shape)
    factors = torch.empty(like.shape, dtype=like.dtype)
    torch.ge(levels, dropped - _STEPS // 2, out=factors)
    return factors.mul_(_STEPS / (_STEPS - dropped))


@torch.library.register_fake("cxrflow::dropout_factors")
def _factors_shape(like: Tensor, rate: float) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Tensor:
    """softmax(q k^T / sqrt(d)) v, [..., H, Q, d], with dropout of the weights.

    ``attn_mask`` (bool, broadcast to [..., H, Q, K]) is True where a query sees a key; every query
    must see one. ``is_causal``: query i sees keys 0 to i.
    """
    if q.device.type != "cpu" or dropout_p == 0:
        return scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        unseen = torch.zeros(attn_mask.shape, dtype=scores.dtype)
        scores = scores.add_(unseen.masked_fill_(~attn_mask, -torch.inf))
    weights = softmax(scores, dim=-1)
    return (weights * dropout_factors(weights, dropout_p)) @ v
