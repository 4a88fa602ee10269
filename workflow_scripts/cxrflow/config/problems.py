"""Errors in a configuration or a paper, with the key of the wrong value."""

from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from cxrflow.papers.entries import Key, defined_depth


class WrongKey(Exception):
    """The value at ``key`` cannot be used.

    Args:
        file: a paper's file; None: one of the configuration's, which its reader will name.
        item: pydantic's description of the error.
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
