"""Trunks that the twins of a training have in common: each input passes through them once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn


class _Used(NamedTuple):
    """What of an encoder is shared if it is equal, and the functions through which it is used."""

    attributes: tuple[str, ...]
    owner: str  # of the functions, a submodule; "" is the encoder itself
    functions: tuple[str, ...]


_USED = {
    "image": _Used(("encoder",), "encoder", ("forward", "forward_until", "forward_from")),
    "text": _Used(("bert", "cls"), "", ("last_states", "predict_tokens")),
}


class Remembered:
    """A function that gives again what it gave for equal arguments, until it is to forget."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, list[tuple[Any, Any]]()

    def __call__(self, *arguments: Any) -> Any:
        for before, result in self.calls:
            if _equal(before, arguments):
                return result
        self.calls.append((arguments, self.function(*arguments)))
        return self.calls[-1][1]


class SharedTrunks:
    """The trunks of a first program's encoders, for others with equal ones. In evaluation alone.

    ``modules``: by encoder ``image`` and ``text``, of the first program.
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self.encoders = {name: modules[name] for name in _USED}
        self.shared: dict[str, list[Remembered]] = {}  # by encoder

    def give(self, modules: Mapping[str, nn.Module]) -> None:
        """Give another program's encoders the trunks of the first where they are equal."""
        for name, (attributes, owner, functions) in _USED.items():
            first, encoder = self.encoders[name], modules[name]
            if not all(_equal(_weights(first, n), _weights(encoder, n)) for n in attributes):
                continue
            for attribute in attributes:
                setattr(encoder, attribute, getattr(first, attribute))
            if name not in self.shared:
                source = first.get_submodule(owner)
                self.shared[name] = [Remembered(getattr(source, each)) for each in functions]
            for using in (first, encoder):
                for function, remembered in zip(functions, self.shared[name], strict=True):
                    setattr(using.get_submodule(owner), function, remembered)

    def layers(self) -> set[nn.Module]:
        """All layers of the trunks that are shared."""
        trunks = (
            getattr(self.encoders[name], attribute)
            for name in self.shared
            for attribute in _USED[name].attributes
        )
        return {layer for trunk in trunks for layer in trunk.modules()}

    def forget(self) -> None:
        """Forget the batch that has passed."""
        for remembered in self.shared.values():
            for each in remembered:
                each.calls.clear()


def _weights(encoder: nn.Module, attribute: str) -> list[torch.Tensor]:
    return list(getattr(encoder, attribute).state_dict().values())


def _equal(a: Any, b: Any) -> bool:
    """Compare arguments, tensors by their values."""
    if a is b:
        return True
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, Sequence) and not isinstance(a, str):
        return isinstance(b, Sequence) and len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
