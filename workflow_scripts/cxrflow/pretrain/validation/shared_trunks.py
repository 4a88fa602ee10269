"""Trunks that the twins of a training have in common: each input passes through them once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

#: By encoder: the attribute that is its trunk.
_TRUNKS = {"image": "encoder", "text": "bert"}
#: By encoder: through what the trunk is used, and whether these are functions of the trunk.
_FUNCTIONS = {"image": (True, ("forward", "forward_until", "forward_from")),
              "text": (False, ("last_states",))}  # fmt: skip


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
        self.encoders = {name: modules[name] for name in _TRUNKS}
        self.shared: dict[str, list[Remembered]] = {}  # by encoder

    def give(self, modules: Mapping[str, nn.Module]) -> None:
        """Give another program's encoders the trunks of the first where they are equal."""
        for name, first in self.encoders.items():
            part, encoder = _TRUNKS[name], modules[name]
            trunk = getattr(first, part)
            if not _equal(_weights(trunk), _weights(getattr(encoder, part))):
                continue
            setattr(encoder, part, trunk)
            of_trunk, functions = _FUNCTIONS[name]
            if name not in self.shared:
                source = trunk if of_trunk else first
                self.shared[name] = [Remembered(getattr(source, each)) for each in functions]
                self._set(first, name)
            self._set(encoder, name)

    def layers(self) -> set[nn.Module]:
        """All layers of the trunks that are shared."""
        trunks = (getattr(self.encoders[name], _TRUNKS[name]) for name in self.shared)
        return {layer for trunk in trunks for layer in trunk.modules()}

    def forget(self) -> None:
        """Forget the batch that has passed."""
        for remembered in self.shared.values():
            for each in remembered:
                each.calls.clear()

    def _set(self, encoder: nn.Module, name: str) -> None:
        of_trunk, functions = _FUNCTIONS[name]
        target = getattr(encoder, _TRUNKS[name]) if of_trunk else encoder
        for function, remembered in zip(functions, self.shared[name], strict=True):
            setattr(target, function, remembered)


def _weights(module: nn.Module) -> list[torch.Tensor]:
    return list(module.state_dict().values())


def _equal(a: Any, b: Any) -> bool:
    """Compare arguments, tensors by their values."""
    if a is b:
        return True
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, Sequence) and not isinstance(a, str):
        return isinstance(b, Sequence) and len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
