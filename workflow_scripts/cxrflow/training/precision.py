"""Which device and arithmetic a run uses."""

import contextlib
import os
from typing import Literal

import torch

from cxr_files.errors import InputError
from cxrflow.compute.devices import named_device
from cxrflow.training.processes import ALONE, Processes

Precision = Literal["bf16", "fp32"]


def choose_device(name: str, processes: Processes = ALONE) -> torch.device:
    """``auto`` is torch's current GPU when there is one; asking for an absent one is an error.

    Of several ``processes`` each has a GPU of its own, so none may be named by its number. One that
    is becomes the current one, until then it is the first.
    """
    if processes.world > 1 and name.startswith("cuda:"):
        raise processes.one_voice(
            InputError(
                f"settings: key 'training.device' is {name!r} in {processes.world} processes, each "
                "of which takes a GPU of its own; expected auto or cuda"
            )
        )
    # Its attention plans anew for every shape, and batches of texts have ever new ones.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = named_device(name)
    except InputError as error:
        raise InputError(f"settings: key {error}") from None
    if device.index is not None and device.type == "cuda":
        # Events and what a GPU is asked without a name are those of the current device.
        torch.cuda.set_device(device)
    return device


def choose_precision(name: Literal["auto", "bf16", "fp32"], device: torch.device) -> Precision:
    """``auto`` is bf16 on a GPU that multiplies it, fp32 on any CPU.

    Some CPUs gain from bf16, others with the same flags lose (docs/performance.md), and what a
    model becomes should not hang on which of them trained it.
    """
    if name != "auto":
        return name
    # GPUs before Ampere only emulate bf16, which gains nothing.
    multiplies = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if multiplies else "fp32"


def choose_kernels(deterministic: bool, steady: bool) -> None:
    """Allow a GPU only kernels that repeat themselves, or let it find its fastest convolutions.

    The second is done by trying, for each number of images anew, so only where that is ``steady``;
    what wins may differ from run to run.
    """
    if deterministic:
        # cuBLAS reads this when it is first used.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.benchmark = steady and not deterministic


def autocast(
    device: torch.device, precision: Precision
) -> contextlib.AbstractContextManager[object]:
    """Mixed precision for the forward pass; a no-op for fp32."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
