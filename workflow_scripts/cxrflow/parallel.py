"""Ordered, bounded work on several cores: results in input order, few of them held at once."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

from cxrflow.errors import InputError

T = TypeVar("T")
R = TypeVar("R")


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in runs of ``size``; the last may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def ordered_map(
    function: Callable[[T], R],
    items: Iterable[T],
    processes: int,
    start: Callable[[], object] | None = None,
) -> Generator[R, None, None]:
    """Yield ``function(item)`` in order; at most ``2 × processes`` results wait in memory.

    ``Executor.map`` submits everything at once, so that results pile up when the consumer is the
    slower side. With one process everything runs in this one. ``start`` makes a process ready; it
    runs in this one first, so that what is wrong with its arguments ends here with one line.

    Raises:
        InputError: a process was killed.
    """
    if start is not None:
        start()
    if processes <= 1:
        yield from map(function, items)
        return
    # Spawned, not forked: Arrow, torch and tokenizers have threads that a forked child would lack.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _begin, (start,))
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise InputError(
            "a worker process ended without an answer (out of memory?); try fewer --threads"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(start: Callable[[], object] | None) -> None:
    """Make a process ready; it leaves Ctrl-C to its parent and ends with it, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if start is not None:
        start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a process of its own"
    parent.join()
    os._exit(1)
