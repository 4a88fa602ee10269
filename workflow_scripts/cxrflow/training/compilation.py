"""Compiled training: the parts of a model that say how, through torch.compile.

A text layer is compiled once for training and once for validation, an image trunk once for each
number of images in a batch: one in training, up to two in validation (``sampler.even_batches``).
Mixed images, of which every batch has another number, go through the rest of a trunk uncompiled.
Dropout draws what it draws uncompiled: a run is the same with and without, up to rounding, and
started again it repeats itself exactly. Parameters keep their names.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cxr_files.errors import InputError

# Inductor's own generator would draw other dropout than torch does.
OPTIONS: dict[str, Any] = {"dynamic": False, "options": {"fallback_random": True}}


@runtime_checkable
class Compilable(Protocol):
    """A module that knows which of its parts to compile."""

    def compile_parts(self, options: dict[str, Any]) -> None:
        """Compile them with these ``options`` of torch.compile; names of parameters stay."""


def compile_modules(modules: Mapping[str, nn.Module], device: torch.device) -> None:
    """Compile what can be compiled inside a program's ``modules``, in place, before training.

    The compiling itself happens in the first step and in the first validation. In several
    processes, parts with batch normalisation stay as they are: its statistics are exchanged in
    the middle of them. Raises :class:`InputError` where no compiler for ``device`` works.
    """
    _require_compiler(device)
    # Under DistributedDataParallel this would cut parts at the borders of gradient buckets, so that
    # gradients travel earlier; the parts are small enough.
    torch._dynamo.config.optimize_ddp = False
    exchanging = distributed.is_initialized() and distributed.get_world_size() > 1
    for module in modules.values():
        for submodule in module.modules():
            if isinstance(submodule, Compilable) and not (
                exchanging and _has_statistics(submodule)
            ):
                submodule.compile_parts(OPTIONS)


def _has_statistics(submodule: nn.Module) -> bool:
    return any(isinstance(layer, _BatchNorm) for layer in submodule.modules())


def _require_compiler(device: torch.device) -> None:
    """Compile and run something small: a compiler, its headers and, on a GPU, Triton are there."""
    values = torch.ones(8, device=device)
    try:
        torch.compile(lambda x: x.sin() + 1, **OPTIONS)(values)
    except Exception as error:  # each backend and version of torch raises another
        needed = "Triton and a C compiler" if device.type == "cuda" else "a C++ compiler"
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "nothing")
        raise InputError(
            f"settings: key 'compile' is true, but torch.compile does not work on {device}; "
            f"expected {needed} (torch says: {reason})"
        ) from None
