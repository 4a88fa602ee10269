"""What is wrong with a configuration or a paper, and under which key it stands."""

from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

Key = tuple[str | int, ...]


class WrongKey(Exception):
    """What stands at ``key`` cannot be used.

    ``file`` is that of a paper; None: one of the configuration's, which the reader of those names.
    ``item``: what pydantic says of it.
    """

    def __init__(
        self,
        key: Key,
        message: str,
        file: Path | None = None,
        item: ErrorDetails | None = None,
    ) -> None:
        super().__init__(message)
        self.key, self.file, self.item = key, file, item


def defines(values: Any, key: Key) -> bool:
    """Whether nested values hold anything under ``key``."""
    for part in key:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
