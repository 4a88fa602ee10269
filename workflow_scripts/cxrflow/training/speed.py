"""How fast a training is: FLOPs of a step by torch's own counter, and the most its device does."""

import contextlib
from collections.abc import Iterator, Mapping
from inspect import unwrap
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import (
    FlopCounterMode,
    addmm_flop,
    baddbmm_flop,
    sdpa_backward_flop,
    sdpa_flop,
)

from cxr_files.yaml_file import read_yaml
from cxrflow.training.precision import Precision

# Products that torch's counter leaves out: those in place, and attention on a CPU.
ALSO_COUNTED = {
    torch.ops.aten.addmm_: unwrap(addmm_flop),
    torch.ops.aten.baddbmm_: unwrap(baddbmm_flop),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: unwrap(sdpa_flop),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: unwrap(sdpa_backward_flop),
}
# Of NVIDIA's GPUs, by name.
PEAKS: dict[str, dict[Precision, float]] = read_yaml(Path(__file__).with_name("gpu_peaks.yaml"))


@contextlib.contextmanager
def flop_counter(compiled: bool) -> Iterator[FlopCounterMode]:
    """Counts the FLOPs of what runs inside, which computes the same bits as uncounted.

    Where parts are ``compiled``, they run as if they were not: the counter cannot see into them.
    """
    with contextlib.ExitStack() as stack:
        if compiled:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield stack.enter_context(FlopCounterMode(display=False, custom_mapping=ALSO_COUNTED))


def peak_flops(device: torch.device, precision: Precision) -> float | None:
    """FLOP/s of ``device`` at most; None for a CPU and for a GPU that is not in the table."""
    if device.type != "cuda":
        return None
    words = f" {torch.cuda.get_device_name(device)} ".replace("-", " ")
    peaks = next((peaks for name, peaks in PEAKS.items() if f" {name} " in words), {})
    return peaks[precision] * 1e12 if precision in peaks else None


def speed(
    totals: Mapping[str, float],
    steps: int,
    flops: int | None,
    world: int,
    device: torch.device,
    precision: Precision,
) -> dict[str, float | None]:
    """The speed of a run as ``run.json`` records it (docs/performance.md).

    ``totals``: seconds, samples, tokens, and seconds of waiting for data. ``flops``: of one step in
    all of ``world`` processes.
    """
    seconds = max(totals["seconds"], 1e-9)
    rate = (flops or 0) * steps / seconds
    peak = peak_flops(device, precision)
    return {
        "samples_per_second": round(totals["samples"] / seconds, 2),
        "tokens_per_second": round(totals["tokens"] / seconds, 2),
        "data_wait_share": round(totals["data"] / seconds, 4),
        "flops_per_step": flops,
        "flops_per_second": float(f"{rate:.4g}"),
        "peak_flops_per_second": None if peak is None else peak * world,
        "mfu": None if peak is None else round(rate / (peak * world), 4),
    }


def speed_in_words(run: Mapping[str, Any]) -> str:
    """The speed that ``run.json`` states as one line of the log."""
    return (
        f"{run['samples_per_second']:.4g} samples/s, {run['flops_per_second'] / 1e9:.4g} GFLOP/s"
        + ("" if run["mfu"] is None else f", MFU {run['mfu']:.1%}")
        + f"; waited for data {run['data_wait_share']:.1%} of the time; "
        f"{run['peak_memory_mb']} MB at most"
    )
