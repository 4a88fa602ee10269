"""Batch statistics over processes and over groups, against torch's own layer on the whole batch."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from cxrflow.training.batch_norm import convert, kept_statistics
from gloo_processes import run_processes

CHANNELS = 3


def small_net() -> nn.Sequential:
    """Both kinds of layer, one of them without parameters and with a mean over all batches."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 5, 2, stride=2),
        nn.BatchNorm2d(5, affine=False, momentum=None, eps=1e-3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(20, 6),
        nn.BatchNorm1d(6, momentum=0.3),
    ).double()


def layer_2d(**options: Any) -> nn.BatchNorm2d:
    """One layer whose parameters and statistics are none of the initial ones."""
    torch.manual_seed(1)
    layer = nn.BatchNorm2d(CHANNELS, **options).double()
    if layer.affine:
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    if layer.running_mean is not None and layer.running_var is not None:
        nn.init.normal_(layer.running_mean)
        nn.init.uniform_(layer.running_var, 1, 2)
    return layer


def images(samples: int, channels: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(samples)
    factors = 1 + torch.arange(samples, dtype=dtype).view(-1, 1, 1, 1)  # no two samples alike
    return torch.randn(samples, channels, 6, 6, generator=generator, dtype=dtype) * factors + 2


def trained(module: nn.Module, x: Tensor, begin: int, total: int, steps: int = 2) -> dict[str, Any]:
    """Outputs, gradients and statistics after steps on the rows of a batch from ``begin``.

    The objective is the rows' share of the batch's: the sum of the rows' own losses, by ``total``.
    """
    for _ in range(steps):
        module.zero_grad()
        x = x.detach().requires_grad_()
        y = module(x)
        shape = (total, *y.shape[1:])
        wanted = torch.arange(total * y.shape[1:].numel(), dtype=y.dtype).sin().view(shape)
        wanted = wanted[begin : begin + len(x)]
        ((y - wanted).square().sum() / total).backward()
    assert x.grad is not None
    # Of a process without samples, a parameter may have no gradient at all.
    gradients = {
        name: torch.zeros_like(value) if value.grad is None else value.grad
        for name, value in module.named_parameters()
    }
    buffers = dict(module.named_buffers())
    return {"y": y.detach(), "x": x.grad, "gradients": gradients, "buffers": buffers}


def trained_share(
    module: nn.Module, x: Tensor, sizes: list[int], group: int | None
) -> dict[str, Any]:
    """What one process does."""
    rank = distributed.get_rank()
    begin = sum(sizes[:rank])
    own = x[begin : begin + sizes[rank]]
    return trained(convert(module, group), own, begin, len(x))


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What several processes found, as one that has the whole batch would."""
    for other in found[1:]:
        assert_same(other["buffers"], found[0]["buffers"], exact=True)
    gradients = {
        name: torch.stack([one["gradients"][name] for one in found]).sum(0)
        for name in found[0]["gradients"]
    }
    rows = {name: torch.cat([one[name] for one in found]) for name in ("y", "x")}
    return {**rows, "gradients": gradients, "buffers": found[0]["buffers"]}


def assert_same(found: Any, expected: Any, exact: bool = False) -> None:
    relative, absolute = (0.0, 0.0) if exact else (1e-9, 1e-11)
    torch.testing.assert_close(found, expected, rtol=relative, atol=absolute)


class LiteralGhost(nn.Module):
    """A layer applied to one group after the other, each starting from the same statistics."""

    def __init__(self, layer: nn.BatchNorm2d, group: int) -> None:
        super().__init__()
        self.layer, self.group = layer, group

    def forward(self, x: Tensor) -> Tensor:
        outputs, after = [], []
        for begin in range(0, len(x), self.group):
            buffers = {name: value.clone() for name, value in self.layer.named_buffers()}
            part = x[begin : begin + self.group]
            outputs.append(torch.func.functional_call(self.layer, buffers, part))
            after.append(buffers)
        for name, value in self.layer.named_buffers():
            value.copy_(torch.stack([buffers[name] for buffers in after]).double().mean(0))
        return torch.cat(outputs)


@pytest.mark.parametrize("sizes", [[4, 4], [6, 1], [5, 0], [3, 3, 3, 3], [1, 4, 0, 3]], ids=str)
def test_global_statistics_are_those_of_one_process(sizes: list[int]) -> None:
    x = images(sum(sizes))
    found = together(run_processes(len(sizes), trained_share, small_net(), x, sizes, None))
    assert_same(found, trained(small_net(), x, 0, len(x)))


@pytest.mark.parametrize(
    "options",
    [{"affine": False}, {"track_running_stats": False}, {"momentum": None}, {"eps": 0.5}],
    ids=str,
)
@pytest.mark.parametrize("group", [None, 2])
def test_options_of_the_layer(options: dict[str, Any], group: int | None) -> None:
    x = images(8, CHANNELS)
    found = together(run_processes(2, trained_share, layer_2d(**options), x, [4, 4], group))
    layer = layer_2d(**options)
    expected: nn.Module = layer if group is None else LiteralGhost(layer, group)
    assert_same(list(found.values()), unnamed(trained(expected, x, 0, len(x))))


def unnamed(found: dict[str, Any]) -> list[Any]:
    """The names of a layer that stands inside another module, without the latter's."""
    for part in ("gradients", "buffers"):
        found[part] = {name.removeprefix("layer."): value for name, value in found[part].items()}
    return list(found.values())


@pytest.mark.parametrize("sizes", [[4, 8], [12, 0], [4, 4, 4, 0]], ids=str)
def test_groups_do_not_depend_on_the_processes(sizes: list[int]) -> None:
    x = images(12, CHANNELS)
    found = together(run_processes(len(sizes), trained_share, layer_2d(), x, sizes, 4))
    assert_same(list(found.values()), unnamed(trained(LiteralGhost(layer_2d(), 4), x, 0, 12)))


@pytest.mark.parametrize(("samples", "group"), [(12, 4), (12, 1), (10, 4), (3, 4), (4, 4)])
def test_groups_in_one_process(samples: int, group: int) -> None:
    """The last group may be smaller."""
    x = images(samples, CHANNELS)
    found = trained(convert(layer_2d(), group), x, 0, samples)
    expected = trained(LiteralGhost(layer_2d(), group), x, 0, samples)
    assert_same(list(found.values()), unnamed(expected))


def test_a_net_of_groups_trains_alike_in_any_number_of_processes() -> None:
    x = images(8)
    alone = trained(convert(small_net(), 2), x, 0, 8)
    for sizes in ([4, 4], [2, 2, 2, 2]):
        found = run_processes(len(sizes), trained_share, small_net(), x, sizes, 2)
        assert_same(together(found), alone)
    assert not torch.allclose(alone["y"], trained(small_net(), x, 0, 8)["y"])


def test_one_process_alone_is_exactly_torch() -> None:
    x = images(6, dtype=torch.float32)
    found = trained(convert(small_net().float(), None), x, 0, 6)
    assert_same(found, trained(small_net().float(), x, 0, 6), exact=True)


def test_sequences() -> None:
    """[samples, channels, positions]; with torch's own layer on each group by hand."""
    x = images(8, CHANNELS).flatten(2)
    found = trained(convert(nn.BatchNorm1d(CHANNELS, momentum=1.0).double(), 4), x, 0, 8, steps=1)
    parts = [F.batch_norm(part, None, None, training=True) for part in x.split(4)]
    assert_same(found["y"], torch.cat(parts))
    means = torch.stack([part.mean((0, 2)) for part in x.split(4)])
    assert_same(found["buffers"]["running_mean"], means.mean(0))


def half_precision(x: Tensor) -> dict[str, Any]:
    rank, world = distributed.get_rank(), distributed.get_world_size()
    own = x.chunk(world)[rank].to(memory_format=torch.channels_last).requires_grad_()
    layer = convert(nn.BatchNorm2d(CHANNELS), None)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(own)
        y.float().pow(3).sum().backward()
    assert own.grad is not None
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert own.grad.is_contiguous(memory_format=torch.channels_last)
    return {"y": y.detach(), "x": own.grad, "buffers": dict(layer.named_buffers())}


def test_half_precision_has_full_statistics() -> None:
    """bfloat16 in and out, channels last; statistics are those of the values in float64."""
    x = (images(8, CHANNELS) + 20).bfloat16()
    found = run_processes(2, half_precision, x)
    y = torch.cat([one["y"] for one in found])
    assert y.dtype == torch.bfloat16 and found[0]["x"].dtype == torch.bfloat16
    reference = nn.BatchNorm2d(CHANNELS).double()
    wide = x.double().requires_grad_()
    expected = reference(wide)
    expected.pow(3).sum().backward()
    torch.testing.assert_close(y.double(), expected, rtol=2**-8, atol=2**-9)
    gradient = torch.cat([one["x"] for one in found]).double()
    torch.testing.assert_close(gradient, wide.grad, rtol=2**-5, atol=2**-6)
    for name, value in found[0]["buffers"].items():
        torch.testing.assert_close(value, dict(reference.named_buffers())[name].to(value.dtype))


def test_statistics_of_groups_in_channels_last() -> None:
    x = images(8, CHANNELS).to(memory_format=torch.channels_last)
    y = convert(layer_2d(), 4)(x)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_a_small_deviation_from_a_large_mean_survives() -> None:
    """In float32 the squares of such values, about 1e8, are known to 8 units only."""
    x = 1e4 + images(8, CHANNELS, torch.float32) / 10
    layer = nn.BatchNorm2d(CHANNELS, momentum=1.0)
    found = together(run_processes(2, trained_share, layer, x, [4, 4], None))
    variance = x.double().var((0, 2, 3))
    torch.testing.assert_close(
        found["buffers"]["running_var"].double(), variance, rtol=1e-4, atol=0
    )


def test_evaluation_is_torch_and_communicates_nothing() -> None:
    x = images(5, CHANNELS)
    expected = layer_2d().eval()(x)
    for found in run_processes(2, in_first_process, layer_2d(), x)[0]:
        assert_same(found, expected, exact=True)


def in_first_process(layer: nn.Module, x: Tensor) -> list[Tensor]:
    """Only one process evaluates, and counts work on the meta device as if training."""
    found = []
    for group in (None, 2) if distributed.get_rank() == 0 else ():
        shadow = copy.deepcopy(convert(layer, group)).to("meta").train()
        assert shadow(x.to("meta")).shape == x.shape
        found.append(layer.eval()(x).detach())
    return found


def test_state_dicts_fit_both_ways() -> None:
    plain = small_net()
    trained(plain, images(6), 0, 6)
    converted = convert(small_net(), 2)
    converted.load_state_dict(plain.state_dict())
    assert_same(dict(converted.state_dict()), dict(plain.state_dict()), exact=True)
    assert_same(converted.eval()(images(4)), copy.deepcopy(plain).eval()(images(4)), exact=True)
    trained(converted.train(), images(6), 0, 6)
    plain.load_state_dict(converted.state_dict())
    assert_same(plain.eval()(images(4)), converted.eval()(images(4)), exact=True)


def test_converting_keeps_the_objects() -> None:
    """An optimiser that already holds the parameters goes on; a shared layer stays shared."""
    net = small_net()
    net.append(net[8])
    before = list(net.parameters())
    assert convert(net, 4) is net
    assert all(new is old for new, old in zip(net.parameters(), before, strict=True))
    assert net[8] is net[9]
    assert [layer.group for layer in net if hasattr(layer, "group")] == [4, 4, 4, 4]
    assert "group=4" in repr(net[1])
    convert(net, None)
    assert "group=None" in repr(net[1])
    assert isinstance(net[1], nn.BatchNorm2d) and isinstance(net[8], nn.BatchNorm1d)


def refusal(layer: nn.Module, shares: list[Tensor], group: int | None) -> str:
    with pytest.raises(ValueError) as caught:
        convert(layer, group)(shares[distributed.get_rank()])
    return str(caught.value)


def test_what_cannot_be_normalised() -> None:
    layer = layer_2d()
    found = run_processes(2, refusal, layer, [images(6, CHANNELS)] * 2, 4)
    assert found[1] == (
        "batch normalisation: 6 samples in process 1; expected a multiple of the group of 4 samples"
    )
    vectors = nn.BatchNorm1d(2).double()
    one_value = [torch.ones(rows, 2, dtype=torch.float64) for rows in (1, 0)]
    for message in run_processes(2, refusal, vectors, one_value, None):
        assert "1 value(s) per channel in the whole batch; expected more than 1" in message
    with pytest.raises(ValueError, match="group 0; expected at least 1 sample"):
        convert(layer, 0)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        convert(vectors, 1)(torch.ones(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("group", [None, 2])
def test_a_pass_that_only_reads_leaves_running_statistics_as_they_are(group: int | None) -> None:
    x = images(6)
    reading, plain = (convert(small_net(), group) for _ in range(2))
    statistics = [name for name in plain.state_dict() if "running" in name]
    before = {name: reading.state_dict()[name].clone() for name in statistics}
    with kept_statistics(reading):
        assert torch.equal(reading(x), plain(x))
    assert all(torch.equal(before[name], reading.state_dict()[name]) for name in statistics)
    assert not any(torch.equal(before[name], plain.state_dict()[name]) for name in statistics)
    reading(x)
    assert not any(torch.equal(before[name], reading.state_dict()[name]) for name in statistics)
