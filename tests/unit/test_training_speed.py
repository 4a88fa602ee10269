"""What a step costs: its FLOPs, the data clock, memory and what is said when that runs out."""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cxrflow.errors import InputError
from cxrflow.training.memory import explained
from cxrflow.training.speed import flop_counter, peak_flops
from cxrflow.training.step import DataClock

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
    assert all(torch.equal(a, b) for a, b in zip(plain, counted, strict=True))
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
