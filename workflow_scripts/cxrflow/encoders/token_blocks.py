"""Sequences without their padding: what a transformer needs to work on real tokens alone.

Everything in BERT but attention treats each token by itself, so it can run on the T real tokens of
a batch, one after the other. Attention stays inside a *block*: a padded sequence, or one document
of a packed row. Blocks of similar length are padded to the longest of them and attend together, so
attention keeps its dropout (BioViL section 2.1 drops 25 % there too), which the variable-length
kernels of torch lack.

Shapes: B rows, L places, T real tokens, D width, N blocks of a group, W tokens of its longest.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_STEP = 32  # blocks whose lengths fall between the same multiples of this attend together


@dataclass(frozen=True)
class _Group:
    """Blocks that attend together; their tokens stand next to each other among the T."""

    begin: int
    end: int
    count: int  # N
    width: int  # W
    places: Tensor  # [end - begin], places of the tokens in the padded N * W
    mask: Tensor | None  # bool [N, 1, 1, W], True at tokens; None where no block is padded


@dataclass(frozen=True)
class TokenBlocks:
    """The real tokens of a batch and the blocks they form."""

    tokens: Tensor  # [T] int64, places in the flattened [B, L], shortest blocks first
    groups: list[_Group]

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
        sorted_sizes = sizes[rank]
        new_block = torch.empty_like(rank).scatter_(0, rank, torch.arange(len(rank)).to(rank))
        order = torch.argsort(new_block[block], stable=True)
        groups, begin = [], 0
        for part in _similar(sorted_sizes.tolist()):
            lengths = sorted_sizes[part]
            end = begin + int(lengths.sum())
            groups.append(_group(lengths, begin, end, device))
            begin = end
        return cls(real[order].to(device), groups)

    def attend(self, qkv_T3D: Tensor, heads: int, attention: Callable[..., Tensor]) -> Tensor:
        """Contexts [T, D] of the tokens: ``attention(q, k, v, attn_mask=...)`` in every group.

        ``qkv_T3D`` holds a token's query, key and value, each D wide; ``attention`` gets them as
        [N, heads, W, D / heads] and gives contexts of that shape.
        """
        triple = qkv_T3D.shape[1]
        found = []
        for group in self.groups:
            part = qkv_T3D[group.begin : group.end]
            if group.mask is not None:
                empty = part.new_zeros(group.count * group.width, triple)
                part = empty.index_copy(0, group.places, part)
            q, k, v = part.view(group.count, group.width, 3, heads, -1).permute(2, 0, 3, 1, 4)
            context = attention(q, k, v, attn_mask=group.mask).transpose(1, 2)
            context = context.reshape(group.count * group.width, triple // 3)
            if group.mask is not None:
                context = context.index_select(0, group.places)
            found.append(context)
        return torch.cat(found)


def _similar(sizes: list[int]) -> list[slice]:
    """Runs of ascending ``sizes`` between the same multiples of the step."""
    steps = [-(-size // _STEP) for size in sizes]
    borders = [n for n in range(len(steps)) if n == 0 or steps[n] != steps[n - 1]]
    return [slice(a, b) for a, b in zip(borders, [*borders[1:], len(steps)], strict=True)]


def _group(lengths: Tensor, begin: int, end: int, device: torch.device) -> _Group:
    count, width = len(lengths), int(lengths.max())
    inside = torch.arange(width, device=lengths.device) < lengths[:, None]
    places = torch.nonzero(inside.flatten()).flatten()
    mask = None if end - begin == count * width else inside[:, None, None].to(device)
    return _Group(begin, end, count, width, places.to(device), mask)
