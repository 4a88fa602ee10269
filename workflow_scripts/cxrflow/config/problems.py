"""Errors in a configuration or a paper, with the key of the wrong value."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from cxrflow.papers.entries import Key, defined_depth

LISTED = 40  # names at most that an error lists


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


def unknown(name: str, known_names: Iterable[str]) -> str:
    """Describe a name that refers to nothing, and list the known ones; of many the most alike."""
    known = sorted(known_names)
    words = ", ".join(known) or "none"
    if len(known) > LISTED:
        near = get_close_matches(name, known, n=5)
        words = ", ".join([f"{len(known)} of other names", *near])
    return f"'{name}' is not known; there are {words}"
