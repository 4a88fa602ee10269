"""What a step costs and says; learning rates, optimisers and what validation decides."""

import math
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from literal import identical
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import MultiStepLR, ReduceLROnPlateau

from cxr_files.errors import InputError
from cxrflow.training import optimiser as optimisers
from cxrflow.training.memory import explained
from cxrflow.training.monitor import Monitor
from cxrflow.training.program import ParameterRule
from cxrflow.training.settings import OptimiserSettings, ScheduleSettings, TrainingSettings
from cxrflow.training.speed import flop_counter, peak_flops
from cxrflow.training.step import DataClock, learning_rate_factor

CPU = torch.device("cpu")


class Small(nn.Module):
    """Convolution, batch statistics, attention and dropout: what counting could disturb."""

    def __init__(self) -> None:
        super().__init__()
        convolution = nn.Conv2d(1, 8, 3, bias=False)
        self.stem = nn.Sequential(convolution, nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.project = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.project(self.stem(x).flatten(2).transpose(1, 2))
        q, k, v = (part.unsqueeze(1) for part in hidden.chunk(3, dim=2))
        return F.dropout(F.scaled_dot_product_attention(q, k, v), 0.3)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_counted_step_is_the_same_step(compiled: bool) -> None:
    torch.manual_seed(0)
    pixels = torch.randn(2, 1, 6, 6)  # 16 positions after the convolution
    initial = Small().state_dict()

    def step(count: bool) -> tuple[list[torch.Tensor], int]:
        module = Small()
        module.load_state_dict(initial)
        optimiser = torch.optim.AdamW(module.parameters(), fused=True)
        if compiled and count:
            module.compile(backend="inductor")
        torch.manual_seed(1)
        flops = 0
        if count:
            with flop_counter(compiled) as counter:
                module(pixels).square().mean().backward()
            flops = counter.get_total_flops()
        else:
            module(pixels).square().mean().backward()
        optimiser.step()
        return list(module.state_dict().values()), flops

    (plain, _), (counted, flops) = step(False), step(True)
    identical(plain, counted)
    convolution, linear = 2 * 2 * 16 * 8 * 9, 2 * 2 * 16 * 8 * 24
    # The pixels need no gradient; attention multiplies twice forward, five times backward.
    assert flops == 2 * convolution + 3 * linear + 7 * 2 * 2 * 16 * 16 * 8


def test_products_in_place_count() -> None:
    a = torch.ones(3, 4, 4)
    with flop_counter(compiled=False) as counter:
        a.baddbmm_(a.clone(), a.clone())
        a[0].addmm_(a[1], a[2])
    assert counter.get_total_flops() == 4 * 2 * 4**3


@pytest.mark.parametrize(
    "name,precision,teraflops",
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA A100-SXM4-40GB", "fp32", 19.5),
        ("Tesla V100-SXM2-16GB", "bf16", None),
        ("NVIDIA A10G", "bf16", None),  # not an A10
    ],
)
def test_peak_is_that_of_the_data_sheet(name, precision, teraflops, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    wanted = None if teraflops is None else teraflops * 1e12
    assert peak_flops(torch.device("cuda"), precision) == wanted
    assert peak_flops(CPU, precision) is None


class Slow(nn.Module):
    """A module that takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.2)
        return self.inner(x)


def test_clock_counts_waiting_for_data_alone() -> None:
    first, second = Slow(), Slow()
    clock = DataClock([first, second])
    second(torch.ones(1, 2))  # outside of an objective
    assert clock.seconds == 0
    waited = 0.0

    def wait() -> float:
        start = time.perf_counter()
        time.sleep(0.1)
        return time.perf_counter() - start

    with clock.running():
        waited += wait()
        hidden = first(torch.ones(1, 2))
        time.sleep(0.2)  # a loss: what follows is given a computed tensor
        second(hidden)
        waited += wait()
        first(torch.ones(1, 2))
        time.sleep(0.2)  # a loss at the end
    assert waited <= clock.seconds < waited + 0.15
    before = clock.seconds
    clock.close()
    with clock.running():
        first(torch.ones(1, 2))
    assert clock.seconds == before and not first._forward_hooks and not first._forward_pre_hooks


def gpu_is_full() -> None:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


@pytest.mark.parametrize("work", [lambda: torch.empty(2**48), lambda: np.empty(2**56), gpu_is_full])
def test_running_out_of_memory_is_one_line(work: Callable[[], object]) -> None:
    said = "^run: not enough memory on cpu; what helps: a smaller batch, less$"
    with pytest.raises(InputError, match=said), explained("run", CPU, ["a smaller batch", "less"]):
        work()


def test_other_errors_stay_what_they_are() -> None:
    full = explained("run", CPU, ["less"])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), full:
        torch.ones(2, 3) @ torch.ones(2, 3)


PROGRAM = """
import resource, sys
from cxrflow.training.memory import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
import torch

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    return torch.empty(2**24).fill_(1)  # 64 MiB; from 32 on glibc maps every tensor by itself

for _ in range(20):  # until the heap has its size
    step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_memory_that_is_freed_stays_with_the_process() -> None:
    pages = 5 * 64 * 2**20 // 4096
    assert faults("keep") < pages // 10
    if faults("leave") < pages // 2:
        pytest.skip("this C library keeps it by itself, or has pages of another size")


def factors(**settings: object) -> list[float]:
    """Of the 100 steps of a run and the one after the last."""
    chosen = ScheduleSettings(**settings)
    return [learning_rate_factor(chosen, step, 100) for step in range(101)]


def test_warm_up_and_decay_to_zero() -> None:
    linear = factors(decay="linear", warmup=0.1)
    assert linear[0] == pytest.approx(0.1) and linear[9:11] == [1.0, 1.0]
    assert linear[99] == pytest.approx(1 / 90) and linear[100] == 0
    assert factors(decay="linear", warmup_steps=10) == linear
    cosine = factors(decay="cosine", warmup=0.0)
    assert (cosine[0], cosine[50], cosine[100]) == (1, pytest.approx(0.5), pytest.approx(0))
    assert set(factors(decay="constant", warmup=0.0)) == {1.0}


def test_noam_is_the_published_formula() -> None:
    width, warmup = 512, 20
    published = [width**-0.5 * min(n**-0.5, n * warmup**-1.5) for n in range(1, 102)]
    peak = (width * warmup) ** -0.5
    noam = factors(decay="noam", warmup_steps=warmup)
    assert [peak * factor for factor in noam] == pytest.approx(published)


def test_multistep_is_that_of_torch() -> None:
    optimiser = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = MultiStepLR(optimiser, [60, 80], gamma=0.1)
    published = []
    for _ in range(101):
        published.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    ours = factors(decay="multistep", warmup=0.0, milestones=[0.6, 0.8], factor=0.1)
    assert ours == pytest.approx(published)
    for wrong in ({"decay": "multistep"}, {"milestones": [0.5]}):
        with pytest.raises(ValueError, match="set milestones with decay 'multistep'"):
            ScheduleSettings(**wrong)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_plateau_falls_when_torch_lets_it_fall(mode: str) -> None:
    """torch waits for one validation more than its ``patience``; ours falls after the last."""
    settings = TrainingSettings(
        steps=100,
        schedule={"decay": "plateau", "factor": 0.5, "patience": 3},
        stopping={"monitor": "score", "mode": mode, "patience": 8},
    )
    optimiser = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    theirs = ReduceLROnPlateau(optimiser, mode=mode, factor=0.5, patience=2, threshold=0)
    values = (3 + torch.randn(60, generator=torch.Generator().manual_seed(0)).cumsum(0)).tolist()
    monitor, extreme = Monitor(), min if mode == "min" else max
    for step, value in enumerate(values, start=1):
        better = monitor.take({"loss": 0.0, "score": value}, step, settings)
        theirs.step(value)
        best = extreme(values[:step])
        assert better == (value == best)
        assert values[monitor.step - 1] == best
        factor = learning_rate_factor(settings.schedule, 50, 100, monitor.plateaus)
        assert factor == pytest.approx(optimiser.param_groups[0]["lr"])
        assert monitor.failures == step - monitor.step
        assert monitor.out_of_patience(settings) == (step - monitor.step >= 8)
    assert monitor.plateaus > 3


def test_a_value_that_is_not_given_or_not_a_number() -> None:
    settings = TrainingSettings(steps=1, stopping={"monitor": "cider", "mode": "max"})
    with pytest.raises(InputError, match=r"monitor' is 'cider'; expected one of .*: loss, bleu"):
        Monitor().take({"loss": 1.0, "bleu": 0.1}, 1, settings)
    monitor = Monitor()
    assert not monitor.take({"loss": 1.0, "cider": math.nan}, 1, settings)
    assert monitor.take({"loss": 1.0, "cider": -1.0}, 2, settings)
    with pytest.raises(InputError, match="loss of the validation after step 3 is nan; expected"):
        monitor.take({"loss": math.nan, "cider": 1.0}, 3, settings)


def test_lars_scales_the_gradient_as_its_equation() -> None:
    module = nn.Module()
    module.weight = weight = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    chosen = {"learning_rate": 0.1, "weight_decay": 0.01, "lars": True, "lars_trust": 0.001}
    settings = OptimiserSettings(name="adam", **chosen)
    optimiser = optimisers.build(settings, {"module": module})
    weight.grad = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    optimisers.apply_lars(optimiser, settings.lars_trust)
    ratio = min(0.001 * 5.0 / (1.0 + 0.01 * 5.0) / 0.1, 1.0)
    wanted = (torch.tensor([[0.6, 0.8]]) + 0.01 * torch.tensor([[3.0, 4.0]])) * ratio
    torch.testing.assert_close(weight.grad, wanted.double(), rtol=1e-7, atol=0)


def test_decay_is_kept_off_biases_and_norms() -> None:
    layer = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    decayed, free = optimisers.parameter_groups({"one": layer, "again": layer}, 0.1)
    assert [tuple(p.shape) for p in decayed["params"]] == [(2, 3)]
    assert decayed["weight_decay"] == 0.1
    assert len(free["params"]) == 3 and free["weight_decay"] == 0
    assert decayed["rate"] == free["rate"] == 1


def test_sgd_gets_its_momentum_and_the_decay_of_each_group() -> None:
    settings = OptimiserSettings(name="sgd", learning_rate=0.1, weight_decay=0.01, momentum=0.9)
    groups = optimisers.build(settings, {"layer": nn.Linear(3, 2)}).param_groups
    found = [(g["lr"], g["momentum"], g["weight_decay"], g["nesterov"]) for g in groups]
    assert found == [(0.1, 0.9, 0.01, False), (0.1, 0.9, 0.0, False)]


def test_rules_set_parameters_apart() -> None:
    encoder, decoder = nn.Sequential(nn.Linear(3, 2)), nn.Linear(2, 5)
    encoder.register_parameter("missing", nn.Parameter(torch.ones(2, 1, 4)))
    rules = [ParameterRule("encoder.missing", decay=False), ParameterRule("encoder.*", rate=0.25)]
    modules = {"encoder": encoder, "decoder": decoder}
    groups = optimisers.parameter_groups(modules, 0.1, rules)
    assert {
        (group["rate"], group["weight_decay"]): [tuple(p.shape) for p in group["params"]]
        for group in groups
    } == {
        (1.0, 0.1): [(5, 2)],
        (1.0, 0.0): [(2, 1, 4), (5,)],
        (0.25, 0.1): [(2, 3)],
        (0.25, 0.0): [(2,)],
    }
    with pytest.raises(InputError, match="no trained parameter has a name like encodr"):
        optimisers.parameter_groups(modules, 0.1, [ParameterRule("encodr.*")])
