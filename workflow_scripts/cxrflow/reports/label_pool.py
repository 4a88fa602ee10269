"""Chunks of reports shared out to processes; the finished parts come back in order.

At most two chunks a process are under way, so that memory does not grow with the input.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path

from cxrflow.errors import InputError
from cxrflow.reports.label_input import Item, Source
from cxrflow.reports.label_parts import Job, Worker

_worker: Worker | None = None


def _start(job: Job) -> None:
    """Make a process ready; it leaves Ctrl-C to its parent and ends with it, even by SIGKILL."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if job.settings.splitter == "stanza" or job.settings.labels.engine != "scope":
        import torch

        torch.set_num_threads(1)
    _worker = Worker(job)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a process of its own"
    parent.join()
    os._exit(1)


def _part(number: int, items: Sequence[Item]) -> Path:
    assert _worker is not None, "the process was not started"
    return _worker.part(number, items)


def _chunks(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    while chunk := list(islice(items, size)):
        yield chunk


def finished_parts(job: Job, source: Source, threads: int) -> Generator[Path, None, None]:
    """The parts of all chunks in order, made by ``threads`` processes; with one, by this one.

    Raises:
        InputError: settings or a model's files are bad, or a process died.
    """
    # In this process first: bad settings or a bad model folder end here with one clear line.
    worker = Worker(job)
    chunks = enumerate(_chunks(source.items(), job.settings.chunk))
    if threads <= 1 or source.total <= job.settings.chunk:
        yield from (worker.part(number, chunk) for number, chunk in chunks)
        return
    del worker
    # Spawned, not forked: torch and arrow have threads that a forked child would lack.
    pool = ProcessPoolExecutor(threads, multiprocessing.get_context("spawn"), _start, (job,))
    try:
        waiting: deque[Future[Path]] = deque()
        for number, chunk in chunks:
            waiting.append(pool.submit(_part, number, chunk))
            if len(waiting) >= 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise InputError(
            "a worker process ended without an answer (out of memory?); what is finished is kept; "
            "try fewer --threads or a smaller reports.chunk"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
