"""Ordered work on several cores, with few results in memory at once.

``ordered_map`` is for our own code: if a process dies, the stage ends. ``guarded_map`` is for
compiled decoders on foreign files: an item that kills its process, or never ends, is lost alone.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Generic, TypeVar

from cxr_files.errors import InputError

T = TypeVar("T")
R = TypeVar("R")

#: Items that a process of ``guarded_map`` is given at once.
BLOCK = 32

#: ``guarded_map`` waits this many times the allowed processor time for an answer (slow disks).
PATIENCE = 20

OUT_OF_MEMORY = "a worker process ended without an answer (out of memory?); try fewer --threads"


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size``; the last may be shorter."""
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
    try:
        yield from _in_order(pool, function, items, 2 * processes)
    except BrokenProcessPool:
        raise InputError(OUT_OF_MEMORY) from None
    finally:
        pool.shutdown(cancel_futures=True)


def guarded_map(
    function: Callable[[T], R],
    items: Iterable[T],
    processes: int,
    lost: Callable[[T, str], R],
    seconds: float,
) -> Generator[R, None, None]:
    """Yield ``function(item)`` in order, from at least one process besides this one.

    If the process of an item dies, or needs more than ``seconds`` of processor time, the result is
    ``lost(item, reason)`` and a new process continues with the next item. Waiting for a slow disk
    is not processor time but has a limit too (``PATIENCE``). When memory runs out, the system may
    kill a process that is not to blame, so an item whose process was killed is tried once more.

    Raises:
        InputError: an item's process was killed twice, or none could be started.
    """
    guards: SimpleQueue[_Guard[T, R]] = SimpleQueue()
    all_guards = [_Guard(function, lost, seconds) for _ in range(max(1, processes))]
    for guard in all_guards:
        guards.put(guard)

    def answers(block: list[T]) -> list[R]:
        guard = guards.get()  # as many threads as guards
        try:
            return guard.answers(block)
        finally:
            guards.put(guard)

    pool = ThreadPoolExecutor(len(all_guards))
    at_work = True
    try:
        for results in _in_order(pool, answers, chunks(items, BLOCK), 2 * len(all_guards)):
            yield from results
        at_work = False
    finally:
        for guard in all_guards:
            guard.close(at_work)
        pool.shutdown(cancel_futures=True)


def _in_order(
    pool: Executor, function: Callable[[T], R], items: Iterable[T], most: int
) -> Iterator[R]:
    """Yield the results of a pool in order; at most ``most`` items are in work or waiting."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) >= most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


class _Guard(Generic[T, R]):
    """A process that answers item by item and is replaced when an item kills it."""

    def __init__(
        self, function: Callable[[T], R], lost: Callable[[T, str], R], seconds: float
    ) -> None:
        self._function, self._lost, self._seconds = function, lost, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()  # of starting and ending the process
        self._ready = self._closed = False

    def answers(self, items: list[T]) -> list[R]:
        """Return ``function`` of each item, or its replacement."""
        results: list[R] = []
        tried_again = -1  # the item
        while len(results) < len(items):
            connection = self._open()
            try:
                connection.send(items[len(results) :])
                while len(results) < len(items):
                    if not connection.poll(PATIENCE * self._seconds):
                        reason = f"no answer in {PATIENCE * self._seconds:g} s"
                        break
                    returned, value = connection.recv()
                    if not returned:
                        raise value
                    results.append(value)
                else:
                    return results
            except (EOFError, ConnectionError):
                reason = ""
            code = self._end(dead=not reason)
            if not reason and code == -signal.SIGKILL:
                if tried_again == len(results) or self._closed:
                    raise InputError(f"{items[len(results)]}: {OUT_OF_MEMORY}")
                tried_again = len(results)
                continue
            if code == -signal.SIGPROF:
                reason = f"it took more than {self._seconds:g} s of processor time"
            reason = reason or f"its decoder crashed ({_cause(code)})"
            results.append(self._lost(items[len(results)], reason))
        return results

    def _open(self) -> Connection:
        """Return the connection to the process, which is started if there is none."""
        with self._lock:
            if self._closed:
                raise InputError("the work was ended")
            if self._connection is None:
                # Not spawned by multiprocessing: that would run a user's script again, to its end.
                ours, theirs = multiprocessing.Pipe()
                modules = os.pathsep.join(map(os.path.abspath, sys.path))
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _SERVE, str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=os.environ | {"PYTHONPATH": modules},
                )
                theirs.close()
                self._connection, self._ready = ours, False
            connection = self._connection
        if not self._ready:
            try:
                connection.send((self._function, self._seconds))
                connection.recv()  # its readiness
            except (EOFError, ConnectionError):
                cause = _cause(self._end(dead=True))
                raise InputError(f"a worker process could not start ({cause})") from None
            self._ready = True
        return connection

    def _end(self, dead: bool) -> int:
        """Close the connection, kill the process unless ``dead``, and return its exit code."""
        with self._lock:
            process, connection = self._process, self._connection
            self._process = self._connection = None
        if process is None or connection is None:
            return 0
        connection.close()
        if not dead:
            process.kill()
        return process.wait()

    def close(self, at_work: bool) -> None:
        """End the process: after its work, or at once if it is ``at_work``."""
        with self._lock:
            self._closed = True
            if self._process is None or self._connection is None:
                return
            if at_work:  # its thread sees the line break
                self._process.kill()
            else:
                self._connection.close()
            self._process.wait()


_SERVE = "from cxr_files.parallel import serve; serve()"


def serve() -> None:
    """Run in a guarded process: receive lists of items, send an answer for each.

    An item's processor time is limited by a timer of the system, whose signal ends the process in
    the middle of compiled code too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    threading.Thread(target=_end_without, args=(int(sys.argv[2]),), daemon=True).start()
    function, seconds = connection.recv()
    _keep_memory()
    connection.send(None)
    while True:
        try:
            items = connection.recv()
        except EOFError:
            return
        for item in items:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                answer = True, function(item)
            except Exception as error:  # a defect of ours, told where it is waited for
                error.add_note(traceback.format_exc())
                connection.send((False, error))
                return
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send(answer)


def _keep_memory() -> None:
    """Keep freed memory in this process (glibc M_MMAP_THRESHOLD and M_TRIM_THRESHOLD).

    Each image takes the place of the one before; given back between them, its pages would have to
    be cleared by the system every time, which takes as long as decoding.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        library = ctypes.CDLL(None)
        for parameter in (-3, -1):
            library.mallopt(parameter, 1 << 30)


def _cause(code: int) -> str:
    """Name an exit code: ``SIGSEGV``, ``exit code 1``."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _begin(start: Callable[[], object] | None) -> None:
    """Prepare a process: it ignores Ctrl-C and ends when its parent ends, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if start is not None:
        start()


def _end_without(parent: int) -> None:
    """End this process within a second of its parent."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "runs in a process of its own"
    parent.join()
    os._exit(1)
