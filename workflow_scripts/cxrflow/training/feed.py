"""Batches on their way to the steps; on a GPU a thread prepares the next one while a step runs.

What a step reads of no weights is a pure function of seed, epoch and batch: rows, texts, masks and
augmented images, whose random numbers are keyed (``compute/keyed_random.py``). So it does not
matter which thread prepares a batch or when, and a resumed run prepares what an undisturbed one
does. The thread launches on the stream of the steps, which reads a batch after what wrote it.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import torch


class Feed:
    """Gives each of a run's ``steps`` the batch that ``prepare`` makes of the step's number.

    ``ahead``: in a thread, one batch ahead of the steps.
    """

    def __init__(self, prepare: Callable[[int], Any], steps: int, ahead: bool) -> None:
        self._prepare, self._steps, self._thread = prepare, steps, None
        self._next: tuple[int, Future[Any]] | None = None
        if ahead:
            # The current GPU is each thread's own; a new one's would be the first of the machine.
            on_gpu = torch.cuda.is_available()
            start = partial(torch.cuda.set_device, torch.cuda.current_device()) if on_gpu else None
            self._thread = ThreadPoolExecutor(1, "feed", initializer=start)

    def take(self, step: int) -> Any:
        """The batch of ``step``; an error of its preparation is raised here."""
        if self._thread is None:
            return self._prepared(step)
        if self._next is None or self._next[0] != step:
            self._next = step, self._thread.submit(self._prepared, step)
        batch = self._next[1].result()
        self._next = None
        if step + 1 < self._steps:
            self._next = step + 1, self._thread.submit(self._prepared, step + 1)
        return batch

    def close(self) -> None:
        """Wait for what the thread is at, and end it."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    @torch.no_grad()
    def _prepared(self, step: int) -> Any:
        return self._prepare(step)
