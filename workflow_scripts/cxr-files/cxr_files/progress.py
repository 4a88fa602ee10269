"""Progress of a long step: a bar on a terminal, a line now and then in a log."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

from cxr_files.parallel import chunks, ordered_map

log = logging.getLogger("cxrflow")
QUIET = 10.0  # seconds from one line of a log to the next, at least
ChunkT = TypeVar("ChunkT")
ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT")


def progress(
    parts: Iterable[ChunkT],
    total: int,
    noun: str,
    size: Callable[[Any], int] = len,
    title: str = "",
) -> Iterator[ChunkT]:
    """Yield ``parts`` and report how many of ``total`` items have passed.

    On a terminal that is a bar. In a log it is a line for every tenth of the way, none for work of
    less than ten seconds.

    Args:
        parts: Anything that is done bit by bit.
        total: How many things all parts have together.
        noun: What one of them is called.
        size: How many of them a part has.
        title: What is being done, if the noun does not say so.
    """
    begun = last_log = time.monotonic()
    finished = tenth = 0
    with tqdm(total=total, unit=noun, desc=title or None, disable=not sys.stderr.isatty()) as bar:
        for part in parts:
            count = size(part)
            finished += count
            bar.update(count)
            now = time.monotonic()
            # A line for every tenth, but no more often than QUIET seconds: logs stay short.
            if bar.disable and 10 * finished // total > tenth and now - last_log >= QUIET:
                tenth, last_log = 10 * finished // total, now
                text = f"{title}: " if title else ""
                log.info(
                    "%s%d of %d, %.1f %ss a second",
                    text,
                    finished,
                    total,
                    finished / (now - begun),
                    noun,
                )
            yield part


def rows_in_chunks(
    function: Callable[[list[ItemT]], Sequence[RowT]],
    items: Sequence[ItemT],
    size: int,
    processes: int,
    noun: str,
) -> list[RowT]:
    """The rows that ``function`` makes of ``size`` items at a time, in order, with progress.

    A single chunk is not worth a process.
    """
    made = ordered_map(function, chunks(items, size), processes if len(items) > size else 1)
    return [row for rows in progress(made, len(items), noun) for row in rows]
