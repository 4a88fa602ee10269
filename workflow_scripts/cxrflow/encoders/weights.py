"""Weight files (safetensors): read whole and fitted exactly, or refused with one line."""

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cxr_files.atomic import require_whole, write_json
from cxr_files.errors import InputError
from cxr_files.weights import stand_in

NAMED = 3  # parameters that an error names


def require_weights(path: Path) -> None:
    """Raise InputError when ``path`` is absent, cut off or no safetensors file."""
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    try:
        with safe_open(path, "pt"):
            pass
    except (SafetensorError, OSError) as error:
        kind = stand_in(path)
        if kind is not None:
            raise InputError(f"{path}: {kind}") from None
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cut off or not a safetensors file ({reason})") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, on the CPU; its checksum, where it has one, is compared."""
    require_weights(path)
    require_whole(path)
    weights = load_file(path)
    require_finite(weights, path)
    return weights


def require_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise InputError naming tensors with numbers that are not finite, and how many they hold.

    A model of such weights gives numbers all the same: nothing is greater than NaN.
    """
    types = {n: value.dtype for n, value in weights.items() if value.is_floating_point()}
    short = [f"{name} is {kind}" for name, kind in types.items() if kind.itemsize < 2]
    require_fit([f"{flaw}, expected numbers of 16 bits or more" for flaw in short], path)
    finite = {name: value.isfinite() for name, value in weights.items()}
    problems = [
        f"{name} holds {int((~values).sum())} of {values.numel()} numbers that are not finite"
        for name, values in finite.items()
        if not values.all()
    ]
    require_fit(problems, path)


def save_weights(
    folder: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write ``config.json`` and ``model.safetensors``, the form of every part of a model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    stored = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    save_file(stored, folder / "model.safetensors", metadata)


def load_weights(
    module: nn.Module,
    weights: Mapping[str, Tensor],
    path: Path,
    optional: Iterable[Set[str]] = (),
) -> list[str]:
    """Fill ``module``: every parameter must be among ``weights`` and none may be left over.

    Each of the ``optional`` sets of names may be absent as a whole. Gives the names that were
    absent, which keep the values they have. ``path`` is where the weights come from.
    """
    state = module.state_dict()
    absent = {name for names in optional if not names & weights.keys() for name in names}
    problems = [
        f"{name} is missing" for name in state if name not in weights and name not in absent
    ]
    problems += [
        f"{name} has shape {list(value.shape)}, expected {list(state[name].shape)}"
        for name, value in weights.items()
        if name in state and value.shape != state[name].shape
    ]
    # Torch would cut the fractions off, or the imaginary parts.
    problems += [
        f"{name} is {value.dtype}, expected floating-point numbers"
        for name, value in weights.items()
        if name in state and state[name].is_floating_point() and not value.is_floating_point()
    ]
    problems += [f"{name} belongs to no parameter" for name in weights if name not in state]
    require_fit(problems, path)
    module.load_state_dict({**state, **weights})
    return sorted(absent)


def require_fit(problems: list[str], path: Path) -> None:
    """Raise InputError with the first few of ``problems``, if there are any."""
    if problems:
        more = f" and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
        raise InputError(f"{path}: not the weights expected: {'; '.join(problems[:NAMED])}{more}")


def require_dimensions(
    weights: Mapping[str, Tensor], dimensions: Mapping[str, int], path: Path
) -> None:
    """Raise InputError if a tensor is missing, or has not as many dimensions as here."""
    require_fit([f"{name} is missing" for name in dimensions if name not in weights], path)
    require_fit(
        [
            f"{name} has shape {list(weights[name].shape)}, expected {count} sizes"
            for name, count in dimensions.items()
            if weights[name].dim() != count
        ],
        path,
    )
