"""Attention of the encoders, with dropout and in blocks, against its equation block by block."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from cxrflow.encoders.attention import (
    Dropout,
    Padded,
    Ragged,
    TokenBlocks,
    attention,
    dropout_factors,
)

ROWS, HEADS, QUERIES, KEYS, WIDTH = 3, 2, 5, 7, 4


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 2**-16, 1 - 2**-16])
def test_the_rate_is_dropped_and_the_expectation_stays(rate: float) -> None:
    torch.manual_seed(0)
    factors = dropout_factors(torch.empty(1_000_003), rate)
    steps = round(rate * 2**16) / 2**16
    share = (factors == 0).double().mean().item()
    assert abs(share - steps) < 4 * math.sqrt(steps * (1 - steps) / len(factors)) + 1e-9
    left = factors[factors != 0].double()
    assert len(left) == 0 or torch.allclose(left, torch.full_like(left, 1 / (1 - steps)))


def test_neighbours_that_share_a_draw_are_independent() -> None:
    torch.manual_seed(1)
    dropped = (dropout_factors(torch.empty(250_000, 4), 0.25) == 0).double()
    correlation = torch.corrcoef(dropped.T)
    assert (correlation - torch.eye(4)).abs().max() < 4 / math.sqrt(len(dropped))
    assert abs(torch.corrcoef(torch.stack([dropped[:-1, 3], dropped[1:, 0]]))[0, 1]) < 0.01


def test_a_seed_draws_the_same_with_any_number_of_threads() -> None:
    draws = []
    threads = torch.get_num_threads()
    for count in (1, 2, 2):
        torch.set_num_threads(count)
        torch.manual_seed(7)
        draws.append(dropout_factors(torch.empty(401, 333), 0.3))
    torch.set_num_threads(threads)
    assert torch.equal(draws[0], draws[1]) and torch.equal(draws[1], draws[2])
    assert not torch.equal(draws[2], dropout_factors(torch.empty(401, 333), 0.3))


def test_the_gradient_takes_the_same_mask_and_evaluation_none() -> None:
    dropout = Dropout(0.4)
    x = torch.randn(50, 9, dtype=torch.float64, requires_grad=True)
    y = dropout(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(y, x * x.grad)
    assert 0 < (x.grad == 0).sum() < x.numel()
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert not Dropout(1.0)(x).any()


def test_half_precision_stays_half() -> None:
    x = torch.ones(1000, dtype=torch.bfloat16)
    assert Dropout(0.25)(x).dtype == torch.bfloat16
    assert set(Dropout(0.25)(x).unique().tolist()) == {0.0, torch.tensor(4 / 3).bfloat16().item()}


def parts(seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    shapes = [(ROWS, HEADS, size, WIDTH) for size in (QUERIES, KEYS, KEYS)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("which", ["all", "mask", "causal"])
def test_attention_is_the_sum_over_what_is_kept_with_gradients(which: str) -> None:
    q, k, v = parts(2)
    mask = None
    if which == "mask":
        mask = (torch.arange(KEYS) < torch.tensor([KEYS, 4, 1])[:, None])[:, None, None]
    seen = torch.ones(ROWS, HEADS, QUERIES, KEYS, dtype=torch.bool)
    seen = seen.tril() if which == "causal" else seen & (mask if mask is not None else seen)
    torch.manual_seed(3)
    ours = attention(q, k, v, mask, dropout_p=0.3, is_causal=which == "causal")
    torch.manual_seed(3)
    factors = dropout_factors(torch.empty(ROWS, HEADS, QUERIES, KEYS, dtype=torch.float64), 0.3)
    exponentials = torch.exp(torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(WIDTH)) * seen
    weights = exponentials / exponentials.sum(-1, keepdim=True) * factors
    wanted = torch.einsum("bhqk,bhkd->bhqd", weights, v)
    torch.testing.assert_close(ours, wanted)
    weight = torch.randn_like(ours)
    found, expected = (torch.autograd.grad((x * weight).sum(), (q, k, v)) for x in (ours, wanted))
    torch.testing.assert_close(found, expected)


def test_attention_without_dropout_is_torchs_own_and_its_mean_with_dropout() -> None:
    q, k, v = (part.detach() for part in parts(4))
    wanted = scaled_dot_product_attention(q, k, v)
    assert torch.equal(attention(q, k, v), wanted)
    draws = torch.stack([attention(q, k, v, dropout_p=0.2) for _ in range(4000)])
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((draws.mean(0) - wanted).abs() < 5 * error).all()


LENGTHS, BLOCK_HEADS, BLOCK_WIDTH, OTHERS = (7, 3, 40, 3), 2, 8, 5
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
    states_BLC = torch.randn(
        len(LENGTHS), length, 3 * BLOCK_WIDTH, device=device, requires_grad=True
    )
    others_BMD = torch.randn(
        2, len(LENGTHS), OTHERS, BLOCK_WIDTH, device=device, requires_grad=True
    )
    tokens_TC = states_BLC.flatten(0, 1)[blocks.tokens]
    within_TD = blocks.attend(tokens_TC, BLOCK_HEADS)
    to_TD = blocks.attend_to(tokens_TC[:, :BLOCK_WIDTH], others_BMD, length, BLOCK_HEADS)

    def heads(states_LD: Tensor) -> Tensor:
        return states_LD.unflatten(-1, (BLOCK_HEADS, -1)).transpose(-2, -3)

    wanted = torch.zeros(2, len(LENGTHS), length, BLOCK_WIDTH, device=device)
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
    found, expected = (
        torch.autograd.grad((each_TD * weights).sum(), inputs) for each_TD in (found_TD, wanted_TD)
    )
    torch.testing.assert_close(found, expected)
