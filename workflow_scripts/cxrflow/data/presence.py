"""Which listed files are really there: a stat each, by threads, for images not opened otherwise."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

_CHUNK = 2048


def file_failures(root: Path, paths: Sequence[str], threads: int = 1) -> pd.Series:
    """Why each ``root/path`` cannot be used (``file not found``, ``file is empty``), else null."""
    chunks = [paths[i : i + _CHUNK] for i in range(0, len(paths), _CHUNK)]

    def look(chunk: Sequence[str]) -> list[str | None]:
        return [_failure(root / path) for path in chunk]

    # Waiting for a network file system dominates, so many more threads than cores pay.
    with ThreadPoolExecutor(max(1, threads * 8)) as pool:
        found = [failure for part in pool.map(look, chunks) for failure in part]
    return pd.Series(found, dtype="str")


def _failure(path: Path) -> str | None:
    try:
        return None if path.stat().st_size else "file is empty"
    except OSError:
        return "file not found"
