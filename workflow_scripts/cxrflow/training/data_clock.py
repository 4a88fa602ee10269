"""How long a training waits for its data."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn


class DataClock:
    """Seconds the objective spends on getting batches ready, before and between its modules.

    Counted is the time from the start of an objective, or from the return of a module, until a
    module is given data: tensors none of which has a gradient, as a batch's pixels or token ids
    are and what other modules have computed is not. Losses, which come after the modules, are not
    data. It is the host's time: a GPU that is still busy with the step before waits for less.

    Only the modules themselves and two levels below are watched, which costs microseconds a step.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.seconds = 0.0
        modules = list(modules)
        # A hook would cut a compiled part in pieces.
        compiled = {
            id(inner)
            for module in modules
            for submodule in module.modules()
            if submodule._compiled_call_impl is not None
            for inner in submodule.modules()
        }
        self._since: float | None = None  # None outside of an objective
        self._depth = 0  # modules that are running, one within the other
        self._hooks = [
            hook
            for module in modules
            for name, submodule in module.named_modules()
            if name.count(".") <= 1 and id(submodule) not in compiled
            for hook in (
                submodule.register_forward_pre_hook(self._enter, with_kwargs=True),
                submodule.register_forward_hook(self._leave),
            )
        ]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The time of one objective."""
        self._since, self._depth = time.perf_counter(), 0
        try:
            yield
        finally:
            self._since = None

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._since is None:
            return
        self._depth += 1
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        if self._depth == 1 and not any(value.requires_grad for value in tensors):
            self.seconds += time.perf_counter() - self._since

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: object) -> None:
        if self._since is not None:
            self._since, self._depth = time.perf_counter(), self._depth - 1

    def close(self) -> None:
        """Watch no longer."""
        for hook in self._hooks:
            hook.remove()
