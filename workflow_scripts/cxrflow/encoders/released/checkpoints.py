"""Weight files of others: read without running what they hold, fitted without leniency.

Every tensor of a file is used, or dropped by its name, or the file is refused with one line that
names it and the tensors. ``torch.load`` runs with ``weights_only=True``: a pickle may not call
anything.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from cxr_files.atomic import read_object
from cxr_files.errors import InputError
from cxr_files.reading import OutsideError, below
from cxr_files.weights import no_plain_numbers, unreadable
from cxrflow.encoders.weights import read_weights, require_finite, require_fit

Shape = tuple[int, ...]
INDEX = ".index.json"
PREFIX = "module."


def read_checkpoint(path: Path, key: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file or of a state dict that torch saved, on the CPU.

    The index of a model in several files stands for all of them. The prefix that training on
    several GPUs leaves before every name is taken off.

    Args:
        path: the file, or the index.
        key: of the entry under which a file of several has its state dict; it may have none.

    Raises:
        InputError: the file is missing, cut off, or holds anything but names and finite tensors.
    """
    if path.name.endswith(INDEX):
        weights: dict[str, Tensor] = {}
        for shard in shards_of(path):
            weights |= read_checkpoint(shard, key)
        return weights
    if path.suffix == ".safetensors":
        return _without_prefix(read_weights(path))
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that are no pickle fail anyhow
        raise InputError(f"{path}: {unreadable(path, error)}") from None
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
    for name, value in content.items():
        if (flaw := no_plain_numbers(value)) is not None:
            raise InputError(f"{path}: '{name}' is {flaw}; expected a dense tensor")
    weights = {str(name): value for name, value in content.items()}
    require_finite(weights, path)
    return _without_prefix(weights)


def _without_prefix(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without the ``module.`` that all of them begin with, if all do."""
    if not all(name.startswith(PREFIX) for name in weights):
        return weights
    return {name.removeprefix(PREFIX): value for name, value in weights.items()}


def shards_of(index: Path) -> list[Path]:
    """The files of a model in several, as its index lists them (``model.safetensors.index.json``).

    Raises:
        InputError: the index is none, or a file is missing.
    """
    files = read_object(index, ("weight_map",))["weight_map"]
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise InputError(f"{index}: field 'weight_map' is no mapping from tensors to files")
    try:
        shards = [below(index.parent, name) for name in sorted(set(files.values()))]
    except OutsideError as error:
        raise InputError(f"{index}: field 'weight_map': {error}") from None
    absent = [shard.name for shard in shards if not shard.is_file()]
    if absent or not shards:
        raise InputError(f"{index}: {', '.join(absent) or 'no file'} is not there; expected all")
    return shards


def count(weights: Mapping[str, Tensor], pattern: str) -> int:
    """One more than the largest number in the names that begin like ``pattern``; at least 1.

    A part that has none is then missing by name. Three digits, so that no name makes a huge model.
    """
    numbers = (re.match(pattern.replace("#", r"(\d{1,3})\."), name) for name in weights)
    return max((int(number[1]) for number in numbers if number), default=0) + 1


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
