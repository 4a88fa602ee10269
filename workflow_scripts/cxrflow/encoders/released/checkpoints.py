"""Weight files of others: read without running what they hold, fitted without leniency.

Every tensor of a file is used, or dropped by its name, or the file is refused with one line that
names it and the tensors. ``torch.load`` runs with ``weights_only=True``: a pickle may not call
anything.
"""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from cxrflow.encoders.weights import read_weights, require_fit
from cxrflow.errors import InputError

Shape = tuple[int, ...]


def read_checkpoint(path: Path, key: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file or of a state dict that torch saved, on the CPU.

    ``key``: of the entry under which a file of several has its state dict; it may have none.

    Raises:
        InputError: the file is missing, cut off, or holds anything but names and tensors.
    """
    if path.suffix == ".safetensors":
        return read_weights(path)
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: holds more than tensors ({_line(error)})") from None
    except Exception as error:  # bytes that are no pickle fail anyhow
        raise InputError(f"{path}: cut off or not a file of weights ({_line(error)})") from None
    if key is not None and isinstance(content, Mapping):
        content = content.get(key, content)
    if not isinstance(content, Mapping) or not content:
        raise InputError(
            f"{path}: holds a {type(content).__name__}, expected a state dict: tensors by name"
        )
    strange = [name for name, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise InputError(
            f"{path}: '{strange[0]}' is a {type(content[strange[0]]).__name__}, expected a state "
            "dict: tensors by name"
        )
    return {str(name): value for name, value in content.items()}


def _line(error: Exception) -> str:
    """The first line of a message that may be a page."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def drop(
    weights: Mapping[str, Tensor], unused: Mapping[str, Shape], path: Path, required: bool
) -> dict[str, Tensor]:
    """``weights`` without those that nothing of ours takes, which must have the shapes they have.

    With ``required`` they must all be there, as they are in every file of the kind.
    """
    problems = [
        f"{name} has shape {list(weights[name].shape)}, expected {list(shape)}"
        for name, shape in unused.items()
        if name in weights and tuple(weights[name].shape) != shape
    ]
    if required:
        problems += [f"{name} is missing" for name in unused if name not in weights]
    require_fit(problems, path)
    return {name: value for name, value in weights.items() if name not in unused}
