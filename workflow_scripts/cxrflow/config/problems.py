"""What is wrong with a configuration or a paper, and under which key it stands."""

from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from cxrflow.papers.entries import Key, defined_depth


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
    """True if nested values hold anything under ``key``."""
    return defined_depth(values, key) == len(key)
