"""Reports in chunks, by a worker in each process."""

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any

from cxr_files.parallel import chunks, ordered_map
from cxr_labels.settings import ReportSettings

_worker: Any = None


def _start(make: Callable[..., Any], settings: ReportSettings, *arguments: Any) -> None:
    global _worker
    if settings.uses_torch:
        import torch

        torch.set_num_threads(1)
    _worker = make(settings, *arguments)


def _process(reports: Sequence[Any]) -> Any:
    assert _worker is not None, "the process was not started"
    return _worker.process(reports)


def in_chunks(
    reports: Iterable[Any],
    total: int,
    threads: int,
    make: Callable[..., Any],
    settings: ReportSettings,
    *arguments: Any,
) -> Generator[Any, None, None]:
    """Yield, in order, what ``make(settings, *arguments).process`` makes of each chunk."""
    start = partial(_start, make, settings, *arguments)
    processes = threads if total > settings.chunk else 1
    return ordered_map(_process, chunks(reports, settings.chunk), processes, start)
