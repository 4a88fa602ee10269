"""Chunks are taken from the input as they are needed, and a dead process is one line."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path

import pytest

from cxrflow.errors import InputError
from cxrflow.reports.label_input import Source
from cxrflow.reports.label_parts import Job, read_part
from cxrflow.reports.label_pool import finished_parts
from cxrflow.reports.settings import ReportSettings
from cxrflow.reports.texts import RawReport

TOTAL, CHUNK = 10_000, 5


def run(folder: Path) -> tuple[Job, Source, list[int]]:
    """A job, a long source, and the numbers of the reports taken from it so far."""
    taken: list[int] = []

    def items() -> Iterator[RawReport]:
        for number in range(TOTAL):
            taken.append(number)
            yield RawReport(str(number), None, text="No edema.")

    settings = ReportSettings(chunk=CHUNK)
    job = Job("table", Path("in.csv"), settings, None, None, folder, "identity")
    return job, Source("table", Path("in.csv"), "row", TOTAL, items), taken


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_is_read_than_is_worked_on(tmp_path: Path, threads: int) -> None:
    job, source, taken = run(tmp_path)
    with closing(finished_parts(job, source, threads)) as parts:
        ids = [read_part(next(parts))["id"].to_pylist() for _ in range(3)]
        assert ids == [[str(5 * n + i) for i in range(5)] for n in range(3)]
        assert len(taken) <= (3 + 2 * threads) * CHUNK
    assert not active_children()


def test_a_dead_process_is_one_line(tmp_path: Path) -> None:
    job, source, _ = run(tmp_path)
    parts = finished_parts(job, source, 2)
    next(parts)
    for child in active_children():
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(InputError, match="a worker process ended without an answer"):
        list(parts)
