"""Attention in blocks, as a GPU and as a CPU does it, against attention block by block."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from cxrflow.encoders.attention import Padded, Ragged, TokenBlocks

LENGTHS, HEADS, WIDTH, OTHERS = (7, 3, 40, 3), 2, 8, 5
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu])]


def one_by_one(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, *_: float) -> Tensor:
    """What torch's kernels do with nested tensors on a GPU, for a CPU."""
    if not q.is_nested:
        return scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
    parts = zip(*(part.transpose(1, 2).unbind() for part in (q, k, v)), strict=True)
    found = [
        scaled_dot_product_attention(*(one.transpose(0, 1) for one in part)).transpose(0, 1)
        for part in parts
    ]
    offsets = q.transpose(1, 2).offsets()
    return torch.nested.nested_tensor_from_jagged(torch.cat(found), offsets).transpose(1, 2)


@pytest.mark.parametrize("kind", [Ragged, Padded])
@pytest.mark.parametrize("name", DEVICES)
def test_tokens_attend_within_their_block_and_to_what_belongs_to_it(
    name: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    device, length = torch.device(name), max(LENGTHS)
    if name == "cpu":
        monkeypatch.setattr("cxrflow.encoders.attention.scaled_dot_product_attention", one_by_one)
    there_BL = torch.arange(length) < torch.tensor(LENGTHS)[:, None]
    blocks = TokenBlocks.of(there_BL.long() - 1, device)
    assert isinstance(blocks.blocks, Padded)
    blocks = TokenBlocks(blocks.tokens, kind.of(torch.tensor(sorted(LENGTHS)), device))
    torch.manual_seed(0)
    states_BLC = torch.randn(len(LENGTHS), length, 3 * WIDTH, device=device, requires_grad=True)
    others_BMD = torch.randn(2, len(LENGTHS), OTHERS, WIDTH, device=device, requires_grad=True)
    tokens_TC = states_BLC.flatten(0, 1)[blocks.tokens]
    within_TD = blocks.attend(tokens_TC, HEADS)
    to_TD = blocks.attend_to(tokens_TC[:, :WIDTH], others_BMD, length, HEADS)

    def heads(states_LD: Tensor) -> Tensor:
        return states_LD.unflatten(-1, (HEADS, -1)).transpose(-2, -3)

    wanted = torch.zeros(2, len(LENGTHS), length, WIDTH, device=device)
    for row, count in enumerate(LENGTHS):
        q, k, v = (heads(part) for part in states_BLC[row, :count].chunk(3, dim=1))
        others = (heads(part) for part in others_BMD[:, row])
        found = scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, *others)
        for number, one in enumerate(found):
            wanted[number, row, :count] = one.transpose(0, 1).flatten(1)
    wanted_TD = wanted.flatten(1, 2)[:, blocks.tokens]
    found_TD = torch.stack([within_TD, to_TD])
    torch.testing.assert_close(found_TD, wanted_TD)
    inputs = (states_BLC, others_BMD)
    weights = torch.randn_like(wanted_TD)
    for own, other in zip(
        torch.autograd.grad((found_TD * weights).sum(), inputs),
        torch.autograd.grad((wanted_TD * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(own, other)
