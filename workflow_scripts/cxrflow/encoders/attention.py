"""Attention and dropout of transformers, on real tokens alone.

Everything in BERT but attention treats each token by itself, so it can run on the T real tokens of
a batch, one after the other. Attention stays inside a *block*: a padded sequence, or one document
of a packed row. Blocks of similar length are padded to the longest of them and attend together.
Many tokens on a GPU are not padded: it has kernels for blocks of any lengths, which torch calls for
nested tensors, at a cost in host time that only they are worth. Both ways drop attention, as BioViL
does (25 %, section 2.1).

On a CPU torch draws one value of a dropout mask at a time, a fifth of the time of a small text
encoder's step. Here four values share a draw of 64 bits, so that a rate is a multiple of 2^-16. And
torch's attention with dropout looks for queries that see no key, of which there are none here. On a
GPU both are torch's own.

Shapes: B rows, L places, T real tokens, D width, C of anything; N blocks (of a group), W places of
each, X places of all groups; M patches of an image; H heads, Q queries, K keys of width d.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention, softmax

from cxrflow.compute.device_copy import sent

_STEPS = 1 << 16  # of a dropout rate
_STEP = 32  # blocks whose lengths fall between the same multiples of this attend together
_ALIGNED = 16  # keys of a mask that a GPU reads at once
MANY = 65_536  # tokens from which nested tensors pay on a GPU (docs/performance.md)


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


@dataclass(frozen=True)
class TokenBlocks:
    """The real tokens of a batch and the blocks they form."""

    tokens: Tensor  # [T] int64, places in the flattened [B, L], shortest blocks first
    blocks: "Ragged | Padded"

    @classmethod
    def of(cls, block_BL: Tensor, device: torch.device) -> "TokenBlocks":
        """Blocks of a batch: ``block_BL`` numbers the block of each place in its row.

        -1 is padding. Tokens of a block need not be neighbours, and no two rows share a block.
        The index tensors are made where ``block_BL`` is, best on the CPU, as their sizes depend
        on its values, and then moved to ``device``.
        """
        rows, length = block_BL.shape
        row = torch.arange(rows, device=block_BL.device)[:, None]
        # Documents of a row are fewer than its places, so this names every block of the batch.
        names = (row * length + block_BL).flatten()
        real = torch.nonzero(block_BL.flatten() >= 0).flatten()
        _, block, sizes = torch.unique(names[real], return_inverse=True, return_counts=True)
        rank = torch.argsort(sizes, stable=True)
        new_block = torch.empty_like(rank).scatter_(0, rank, torch.arange(len(rank)).to(rank))
        order = torch.argsort(new_block[block], stable=True)
        kind = Ragged if device.type == "cuda" and len(real) >= MANY else Padded
        return cls(sent(real[order], device), kind.of(sizes[rank], device))

    def spread(self, states_TD: Tensor, shape: torch.Size) -> Tensor:
        """States of the tokens at their places in ``shape`` [B, L]: [B, L, D]; zero at padding."""
        places_D = states_TD.new_zeros(shape.numel(), states_TD.shape[1])
        return places_D.index_copy(0, self.tokens, states_TD).unflatten(0, shape)

    def attend(
        self, qkv_T3D: Tensor, heads: int, dropout: float = 0.0, causal: bool = False
    ) -> Tensor:
        """Contexts [T, D] of the tokens from those of their own block.

        ``qkv_T3D`` holds a token's query, key and value, each D wide. ``causal``: from itself and
        those before it; padding is then on the right, where no token sees it.
        """
        qkv = self.blocks.by_block(qkv_T3D.unflatten(1, (3, heads, -1)))
        return self.blocks.contexts(qkv, dropout, causal, masked=not causal)

    def attend_to(
        self, q_TD: Tensor, kv_BMD: Sequence[Tensor], length: int, heads: int, dropout: float = 0.0
    ) -> Tensor:
        """Contexts [T, D] of the tokens from key and value of what belongs to their row.

        Every row is one block, a text; ``length`` is L.
        """
        row_N = self.blocks.firsts(self.tokens) // length
        qkv = self.blocks.by_block(q_TD.unflatten(1, (1, heads, -1))) + [
            self.blocks.of_blocks(part_BMD.index_select(0, row_N).unflatten(2, (heads, -1)))
            for part_BMD in kv_BMD
        ]
        return self.blocks.contexts(qkv, dropout, causal=False, masked=False)


@dataclass(frozen=True)
class Ragged:
    """Blocks one after the other: all of them are a nested tensor [N, heads, any, D / heads]."""

    offsets: Tensor  # [N + 1] int64
    shortest: int
    longest: int

    @classmethod
    def of(cls, lengths_N: Tensor, device: torch.device) -> "Ragged":
        """Of these lengths, ascending."""
        offsets = nn.functional.pad(lengths_N.cumsum(0), (1, 0))
        return cls(sent(offsets, device), int(lengths_N[0]), int(lengths_N[-1]))

    def by_block(self, parts_TPHd: Tensor) -> list[list[Tensor]]:
        """Each of P parts of the tokens."""
        sizes = self.shortest, self.longest
        return [[_nested(part_THd, self.offsets, *sizes)] for part_THd in parts_TPHd.unbind(1)]

    def of_blocks(self, states_NMHd: Tensor) -> list[Tensor]:
        """The states of M patches, as many for every block."""
        blocks, patches = states_NMHd.shape[:2]
        offsets = torch.arange(blocks + 1, device=states_NMHd.device) * patches
        return [_nested(states_NMHd.flatten(0, 1), offsets, patches, patches)]

    def firsts(self, values_T: Tensor) -> Tensor:
        """The values [N] of each block's first token."""
        return values_T[self.offsets[:-1]]

    def contexts(
        self, qkv: list[list[Tensor]], dropout: float, causal: bool, masked: bool
    ) -> Tensor:
        """[T, D]; nothing is padded, so nothing needs a mask."""
        q, k, v = (nested for (nested,) in qkv)
        contexts = attention(q, k, v, None, dropout, causal)
        return contexts.transpose(1, 2).values().flatten(1)


def _nested(states_THd: Tensor, offsets: Tensor, shortest: int, longest: int) -> Tensor:
    nested: Tensor = torch.nested.nested_tensor_from_jagged(
        states_THd, offsets, min_seqlen=shortest, max_seqlen=longest
    )
    return nested.transpose(1, 2)


@dataclass(frozen=True)
class Group:
    """Padded blocks that attend together."""

    count: int  # N
    width: int  # W
    mask: Tensor | None  # bool [N, 1, 1, W], True at tokens; None where no block is padded


@dataclass(frozen=True)
class Padded:
    """Blocks in groups of similar length: a tensor [N, heads, W, D / heads] for each."""

    groups: list[Group]
    places: Tensor | None  # [T] int64, places of the tokens among the X; None where T = X

    @classmethod
    def of(cls, lengths_N: Tensor, device: torch.device) -> "Padded":
        groups, inside = [], []
        for run in _similar(lengths_N.tolist()):
            lengths = lengths_N[run]
            # A GPU would copy a mask whose rows are not aligned.
            step = _ALIGNED if device.type == "cuda" else 1
            width = -(-int(lengths[-1]) // step) * step
            is_token_NW = torch.arange(width, device=lengths.device) < lengths[:, None]
            inside.append(is_token_NW.flatten())
            mask = None if is_token_NW.all() else sent(is_token_NW[:, None, None], device)
            groups.append(Group(len(lengths), width, mask))
        inside_X = torch.cat(inside)
        places = None if inside_X.all() else sent(inside_X.nonzero().flatten(), device)
        return cls(groups, places)

    def by_block(self, parts_TPHd: Tensor) -> list[list[Tensor]]:
        """Each of P parts of the tokens; zero in places without a token."""
        padded = self._padded(parts_TPHd.flatten(1))
        shape = parts_TPHd.shape[1:]
        groups = [part_NWC.unflatten(2, shape).permute(2, 0, 3, 1, 4) for part_NWC in padded]
        return [list(tensors) for tensors in zip(*groups, strict=True)]

    def of_blocks(self, states_NMHd: Tensor) -> list[Tensor]:
        return list(states_NMHd.transpose(1, 2).split([group.count for group in self.groups]))

    def firsts(self, values_T: Tensor) -> Tensor:
        return torch.cat([part_NW1[:, 0, 0] for part_NW1 in self._padded(values_T[:, None])])

    def contexts(
        self, qkv: list[list[Tensor]], dropout: float, causal: bool, masked: bool
    ) -> Tensor:
        """[T, D]; ``masked``: keys are tokens, and padding is none."""
        contexts = [
            attention(q, k, v, group.mask if masked else None, dropout, causal)
            for group, q, k, v in zip(self.groups, *qkv, strict=True)
        ]
        context_XD = torch.cat([c.transpose(1, 2).flatten(2).flatten(0, 1) for c in contexts])
        if self.places is None:
            return context_XD
        context_TD: Tensor = _Unpadded.apply(context_XD, self.places)
        return context_TD

    def _padded(self, states_TC: Tensor) -> list[Tensor]:
        """[N, W, C] for each group."""
        sizes = [group.count * group.width for group in self.groups]
        states_XC = states_TC
        if self.places is not None:
            empty = states_TC.new_zeros(sum(sizes), states_TC.shape[1])
            states_XC = empty.index_copy(0, self.places, states_TC)
        chunks = zip(self.groups, states_XC.split(sizes), strict=True)
        return [chunk.unflatten(0, (group.count, group.width)) for group, chunk in chunks]


class _Unpadded(torch.autograd.Function):
    """The rows at T different places of [X, D]; torch's own gradient would add them up."""

    @staticmethod
    def forward(ctx: Any, padded_XD: Tensor, places_T: Tensor) -> Tensor:
        ctx.save_for_backward(places_T)
        ctx.rows = len(padded_XD)
        return padded_XD.index_select(0, places_T)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_TD: Tensor) -> tuple[Tensor, None]:
        (places_T,) = ctx.saved_tensors
        empty = gradient_TD.new_zeros(ctx.rows, gradient_TD.shape[1])
        return empty.index_copy_(0, places_T, gradient_TD), None


def _similar(sizes: list[int]) -> list[slice]:
    """Runs of ascending ``sizes`` between the same multiples of the step."""
    steps = [-(-size // _STEP) for size in sizes]
    borders = [n for n in range(len(steps)) if n == 0 or steps[n] != steps[n - 1]]
    return [slice(a, b) for a, b in zip(borders, [*borders[1:], len(steps)], strict=True)]
