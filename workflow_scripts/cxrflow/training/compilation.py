"""Compiled training: the parts of a model that say how, through torch.compile.

A part is compiled once for training and once for validation, never again because a batch differs,
and its dropout draws what it draws uncompiled: a run is the same with and without, up to rounding,
and started again it repeats itself exactly. Parameters keep their names.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from cxrflow.errors import InputError

# Inductor's own generator would draw other dropout than torch does.
OPTIONS: dict[str, Any] = {"dynamic": False, "options": {"fallback_random": True}}


@runtime_checkable
class Compilable(Protocol):
    """A module that knows which of its parts to compile."""

    def compile_parts(self, options: dict[str, Any]) -> None:
        """Compile them with these ``options`` of torch.compile; names of parameters stay."""


def compile_modules(modules: Mapping[str, nn.Module], device: torch.device) -> None:
    """Compile what can be compiled inside a program's ``modules``, in place, before training.

    The compiling itself happens in the first step and in the first validation. Inside
    DistributedDataParallel gradients travel when a part has finished its backward pass. Raises
    :class:`InputError` where no compiler for ``device`` works.
    """
    _require_compiler(device)
    # It would cut parts at the borders of gradient buckets; parts are cuts enough.
    torch._dynamo.config.optimize_ddp = False
    for module in modules.values():
        for part in module.modules():
            if isinstance(part, Compilable):
                part.compile_parts(OPTIONS)


def _require_compiler(device: torch.device) -> None:
    """Compile and run something small: a compiler, its headers and, on a GPU, Triton are there."""
    values = torch.ones(8, device=device)
    with _explained(device):
        torch.compile(lambda x: x.sin() + 1, **OPTIONS)(values)


@contextlib.contextmanager
def _explained(device: torch.device) -> Iterator[None]:
    needed = "Triton and a C compiler" if device.type == "cuda" else "a C++ compiler"
    try:
        yield
    except Exception as error:  # each backend and version of torch raises another
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise InputError(
            f"settings: key 'compile' is true, but torch.compile does not work on {device}; "
            f"expected {needed} (torch says: {reason})"
        ) from None
