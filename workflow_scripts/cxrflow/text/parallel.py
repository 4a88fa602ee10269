"""Ordered, bounded work on several cores: results in input order, few of them held at once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(
    function: Callable[[T], R], items: Iterable[T], threads: int, processes: bool = True
) -> Iterator[R]:
    """Yield ``function(item)`` in order; at most ``2 × threads`` results wait in memory.

    ``Executor.map`` submits everything at once, so that results pile up when the consumer is the
    slower side. With one thread everything runs in this process. Work that leaves Python's lock
    alone most of the time (NumPy on large arrays) needs no ``processes``: threads start at once,
    share what they have and copy nothing.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    with _pool(threads, processes) as pool:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _pool(threads: int, processes: bool) -> Executor:
    if not processes:
        return ThreadPoolExecutor(threads)
    # Not forked: this process may hold threads of Arrow and tokenizers.
    return ProcessPoolExecutor(threads, mp_context=get_context("spawn"))
