"""Walks through folders that people fill: links to folders are followed, none of them twice."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def walk_files(
    root: Path,
    skipped: frozenset[str] = frozenset(),
    onerror: Callable[[OSError], object] | None = None,
) -> Iterator[Path]:
    """Yield the files below ``root``, folder by folder, in the order of their names.

    A link to a folder is followed, since collections often lie on another disk. A folder that two
    paths lead to is read by the first, so that links in a circle end.

    Args:
        skipped: names of folders that are not read.
        onerror: called with the error of a folder that cannot be read.
    """
    visited: set[tuple[int, int]] = set()
    for folder, subfolders, names in os.walk(root, onerror=onerror, followlinks=True):
        place = os.stat(folder)
        if (place.st_dev, place.st_ino) in visited:
            subfolders.clear()
            continue
        visited.add((place.st_dev, place.st_ino))
        subfolders[:] = sorted(set(subfolders) - skipped)
        yield from (Path(folder, name) for name in sorted(names))
