"""Which device and arithmetic a run uses, and the most that they can do."""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from cxrflow.errors import InputError

Precision = Literal["bf16", "fp32"]
VALUE_BYTES: dict[Precision, int] = {"bf16": 2, "fp32": 4}

PRODUCT_SIDES = (256, 512, 1024, 2048, 4096, 8192)
LONG_ENOUGH = 0.008  # seconds; larger products than one that takes so long are not tried


def choose_device(wanted: str) -> torch.device:
    """``auto`` is the first GPU when there is one; asking for an absent one is an error."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"settings: key 'device' is {wanted!r}, but torch sees no GPU")
    return torch.device(wanted)


def choose_precision(wanted: Literal["auto", "bf16", "fp32"], device: torch.device) -> Precision:
    """``auto`` is bf16 where the hardware multiplies it, which small CPUs emulate slowly."""
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "fp32"


def choose_kernels(deterministic: bool) -> None:
    """Allow a GPU only kernels that repeat themselves, or let it find its fastest convolutions.

    The second is done by trying, and what wins may differ from run to run.
    """
    if deterministic:
        # cuBLAS reads this when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = not deterministic


def autocast(
    device: torch.device, precision: Precision
) -> contextlib.AbstractContextManager[object]:
    """Mixed precision for the forward pass; a no-op for fp32."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


@dataclass(frozen=True)
class Roof:
    """The most a device does in a second: FLOPs of a matrix product, bytes read and written."""

    flops: float
    bytes: float


@torch.no_grad()
def measure_roof(device: torch.device, precision: Precision) -> Roof:
    """Time matrix products in the run's arithmetic, and a copy; takes a few tenths of a second.

    Nothing random is drawn, so a run's results do not depend on it.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    flops = 0.0
    for side in PRODUCT_SIDES:
        # Not a constant: a GPU multiplies those with less power and so faster than real values.
        values = torch.arange(side * side, device=device, dtype=torch.float32).sin()
        matrix = values.view(side, side).to(dtype)
        product = partial(torch.mm, matrix, matrix, out=torch.empty_like(matrix))
        seconds = _best_seconds(product, device)
        flops = max(flops, 2 * side**3 / seconds)
        if seconds > LONG_ENOUGH:
            break
    # More than the caches hold.
    size = 2**28 if device.type == "cuda" else 2**26
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied = 2 * size / _best_seconds(partial(target.copy_, source), device)
    if device.type == "cuda":
        del values, matrix, product, source, target
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    return Roof(flops, copied)


def _best_seconds(work: Callable[[], object], device: torch.device, turns: int = 3) -> float:
    """Shortest of some turns after one that is not timed."""
    times = []
    for _ in range(turns + 1):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return max(min(times[1:]), 1e-9)
