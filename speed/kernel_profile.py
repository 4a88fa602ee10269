"""Where a GPU's time goes in some steps of a training: kernels by class, and how busy it is."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity

from speed.race import synchronise

OTHER = "other"
#: Of the names of kernels, on a CPU of operators; the first that fits counts. A fused kernel counts
#: as the first class that its name holds.
CLASSES = {
    "attention": r"flash|fmha|sdpa|attention",
    "updates": r"multi_tensor|adam|lars",
    "products": r"gemm|gemv|cutlass|cublas|nvjet|conv(?!ert)|wgrad|dgrad|fprop|winograd|splitk|"
    r"xmma|::(add|baddb|b)?mm\b|dot_kernel|mkldnn|vecdot",
    "norms": r"norm(?!al)|bn_fw|bn_bw|gammabeta|welford",
    "dropout": r"dropout|masked_scale|random|distribution|philox|bernoulli",
    "copies": r"^(?!triton).*(memcpy|memset|copy|::cat|catarray|nchw|nhwc|index|gather|scatter|"
    r"transpose|fill|embedding|zero)",
    "elementwise": r"elementwise|reduce|triton|softmax|gelu|relu|threshold|pool|grid_sampl|"
    r"::(add|sub|mul|div|sum|mean|exp|log|where|sqrt|pow|abs|neg|clamp|cumsum)",
}
LARGEST = 8


class Kernel(NamedTuple):
    """One that ran, in microseconds."""

    name: str
    begin: float
    end: float


class Profile:
    """What the profiled steps were, once they have ended."""

    def __init__(self) -> None:
        self.summary: dict[str, Any] | None = None


def kernel_class(name: str) -> str:
    """The class of a kernel by its name."""
    return next((c for c, words in CLASSES.items() if re.search(words, name, re.I)), OTHER)


def summary(kernels: Sequence[Kernel], steps: int) -> dict[str, Any]:
    """Milliseconds of a step by class, launches a step, and the share of time with a kernel.

    The time is that from the first kernel's beginning to the last one's end.
    """
    if not kernels:
        raise ValueError("the profiler saw no kernel")
    took: Counter[str] = Counter()
    by_name: Counter[str] = Counter()
    busy, until = 0.0, float("-inf")
    for name, begin, end in sorted(kernels, key=lambda kernel: kernel.begin):
        took[kernel_class(name)] += end - begin
        by_name[name] += end - begin
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    whole = until - min(kernel.begin for kernel in kernels)
    launches = sum(not kernel.name.startswith("Mem") for kernel in kernels)
    return {
        "milliseconds": {c: round(took[c] / steps / 1000, 3) for c in (*CLASSES, OTHER)},
        "busy_share": round(busy / whole, 4),
        "launches": round(launches / steps),
        "largest": {
            name[:120]: round(t / steps / 1000, 3) for name, t in by_name.most_common(LARGEST)
        },
    }


@contextmanager
def profiled(after: int, steps: int) -> Iterator[Profile]:
    """Profile ``steps`` steps of the training inside, ``after`` so many others."""
    profile = Profile()
    on_gpu = torch.cuda.is_available()
    kind = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
    profiler = torch.profiler.profile(activities=[kind])
    done, running = 0, False

    def count(*_: Any) -> None:
        nonlocal done, running
        done += 1
        if done == after:
            synchronise()
            profiler.start()
            running = True
        elif done == after + steps:
            synchronise()
            profiler.stop()
            running = False
            profile.summary = summary(_kernels(profiler, on_gpu), steps)

    registered = register_optimizer_step_post_hook(count)
    try:
        yield profile
    finally:
        registered.remove()
        if running:
            profiler.stop()


def _kernels(profiler: torch.profiler.profile, on_gpu: bool) -> list[Kernel]:
    """Kernels and copies of a GPU; on a CPU the pieces of operators in which they call no other."""
    kind = DeviceType.CUDA if on_gpu else DeviceType.CPU
    return [
        kernel
        for event in profiler.events() or ()
        if event.device_type == kind
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith(("Optimizer.", "ProfilerStep"))
        for kernel in _own_pieces(event)
    ]


def _own_pieces(event: Any) -> Iterator[Kernel]:
    begin = event.time_range.start
    for child in sorted(event.cpu_children, key=lambda inner: inner.time_range.start):
        yield Kernel(event.name, begin, child.time_range.start)
        begin = child.time_range.end
    yield Kernel(event.name, begin, event.time_range.end)
