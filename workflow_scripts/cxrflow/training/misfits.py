"""Why a saved state is not of the run that would go on from it, though its checksum is right.

A state is compared with what this run would save before its first step: the same keys, types and
shapes. Torch would take whole numbers for weights without a word, and meet an absent moment of its
optimiser in the middle of a step.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cxr_files.errors import InputError

#: Of a state, what may be None or absent, with its type.
OPTIONAL: dict[str, type] = {"codes": list, "flops": int, "metrics": str, "validation": dict}
#: A type that may stand where another is expected.
WIDER: dict[type, type] = {float: int}
#: Mappings whose keys are not known before the first step.
OPEN = ("monitor.record", "optimiser.state", "recent", "validation")
#: The tensors that an optimiser keeps of a parameter: Adam's, those of SGD with momentum, none.
KEPT = ({"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}, set[str]())


def require_state(
    saved: Any, fresh: dict[str, Any], optimiser: torch.optim.Optimizer, folder: Path
) -> None:
    """Raise InputError, naming the folder, where a ``saved`` state is not like a ``fresh`` one."""
    step = saved.get("step") if isinstance(saved, dict) else None
    _require_none(state_misfits(saved, fresh, optimiser), f"state of step {step} does", folder)


def require_best(saved: Any, fresh: dict[str, Any], folder: Path) -> None:
    """The same of the weights of all modules that were saved as the best."""
    _require_none(misfits(saved, fresh), "best weights do", folder)


def _require_none(problems: Iterator[str], subject: str, folder: Path) -> None:
    misfit = next(problems, None)
    if misfit is not None:
        raise InputError(
            f"{folder}: its {subject} not fit the model that this code makes ({misfit}). Delete "
            "the folder to start afresh"
        )


def state_misfits(
    saved: Any, fresh: dict[str, Any], optimiser: torch.optim.Optimizer
) -> Iterator[str]:
    """Yield what of a ``saved`` state is other than in a ``fresh`` one, each with its key.

    The moments of a parameter in ``optimiser`` have its shape.
    """
    misfit = None
    for misfit in misfits(saved, fresh):
        yield misfit
    if misfit is not None:
        return
    parameters = [each for group in optimiser.param_groups for each in group["params"]]
    for number, moments in saved["optimiser"]["state"].items():
        key = f"optimiser.state.{number}"
        if not isinstance(number, int) or not 0 <= number < len(parameters):
            yield f"'{key}' belongs to no parameter"
        elif not isinstance(moments, dict) or moments.keys() not in KEPT:
            yield f"'{key}' does not hold what an optimiser keeps of a parameter"
        else:
            like = {
                name: torch.zeros(()) if name == "step" else parameters[number] for name in moments
            }
            yield from misfits(moments, like, key)


def misfits(saved: Any, fresh: Any, key: str = "") -> Iterator[str]:
    """Yield what is other in ``saved`` than in ``fresh``: keys, lengths, types, shapes."""
    if key in OPTIONAL and saved is None:
        return
    kind = OPTIONAL.get(key, dict if isinstance(fresh, dict) else type(fresh))
    if isinstance(fresh, Tensor):
        if not isinstance(saved, Tensor):
            yield f"'{key}' is a {type(saved).__name__}, expected a tensor"
        elif saved.shape != fresh.shape:
            yield f"'{key}' has shape {list(saved.shape)}, expected {list(fresh.shape)}"
        elif saved.dtype != fresh.dtype:
            yield f"'{key}' is {saved.dtype}, expected {fresh.dtype}"
    elif not (isinstance(saved, dict) if kind is dict else type(saved) in (kind, WIDER.get(kind))):
        yield f"'{key or 'the whole'}' is a {type(saved).__name__}, expected {kind.__name__}"
    elif isinstance(fresh, dict) and key not in OPEN:
        for name in fresh.keys() | saved.keys():
            below = f"{key}.{name}" if key else str(name)
            if name not in fresh:
                yield f"'{below}' belongs to nothing"
            elif name in saved:
                yield from misfits(saved[name], fresh[name], below)
            elif below not in OPTIONAL:
                yield f"'{below}' is missing"
    elif isinstance(fresh, list | tuple) and key not in OPTIONAL:
        if len(saved) != len(fresh):
            yield f"'{key}' has {len(saved)} entries, expected {len(fresh)}"
        for number, pair in enumerate(zip(saved, fresh, strict=False)):
            yield from misfits(*pair, f"{key}.{number}")
