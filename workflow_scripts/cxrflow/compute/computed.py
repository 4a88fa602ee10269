"""Values by key that are computed when they are first read, such as the views of a batch."""

from collections.abc import Callable
from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Computed(dict[KeyT, ValueT]):
    """Values by key, each computed when it is first read."""

    def __init__(self, compute: Callable[[KeyT], ValueT]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: KeyT) -> ValueT:
        self[key] = self._compute(key)
        return self[key]
