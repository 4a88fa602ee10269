"""Views of a batch that are computed when a term reads them."""

from collections.abc import Callable
from typing import TypeVar

KeyT = TypeVar("KeyT")
ViewT = TypeVar("ViewT")


class Computed(dict[KeyT, ViewT]):
    """Views by name or number, each computed when it is first read."""

    def __init__(self, compute: Callable[[KeyT], ViewT]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: KeyT) -> ViewT:
        self[key] = self._compute(key)
        return self[key]
