"""How far a long piece of work is: a bar on a terminal, now and then a line in a log."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tqdm import tqdm

log = logging.getLogger("cxrflow")
QUIET = 10.0  # seconds from one line of a log to the next, at least
PartT = TypeVar("PartT")


def progress(
    parts: Iterable[PartT],
    total: int,
    noun: str,
    size: Callable[[Any], int] = len,
    title: str = "",
) -> Iterator[PartT]:
    """Pass ``parts`` on and tell how many of ``total`` things have come.

    On a terminal that is a bar. In a log it is a line for every tenth of the way, none for work of
    less than ten seconds.

    Args:
        parts: Anything that is done bit by bit.
        total: How many things all parts have together.
        noun: What one of them is called.
        size: How many of them a part has.
        title: What is being done, if the noun does not say so.
    """
    begun = told = time.monotonic()
    done = tenth = 0
    with tqdm(total=total, unit=noun, desc=title or None, disable=not sys.stderr.isatty()) as bar:
        for part in parts:
            count = size(part)
            done += count
            bar.update(count)
            now = time.monotonic()
            if bar.disable and 10 * done // total > tenth and now - told >= QUIET:
                tenth, told = 10 * done // total, now
                text = f"{title}: " if title else ""
                log.info(
                    "%s%d of %d, %.1f %ss a second", text, done, total, done / (now - begun), noun
                )
            yield part
