"""Ordered, bounded work on several cores: results in input order, few of them held at once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(function: Callable[[T], R], items: Iterable[T], processes: int) -> Iterator[R]:
    """Yield ``function(item)`` in order; at most ``2 × processes`` results wait in memory.

    ``Executor.map`` submits everything at once, so that results pile up when the consumer is the
    slower side. With one process everything runs in this one.
    """
    if processes <= 1:
        yield from map(function, items)
        return
    # Not forked: this process may hold threads of Arrow and tokenizers.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
