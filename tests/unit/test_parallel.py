"""Guarded work: what an item's death, hang or error costs, and what it does not."""

import os
import signal
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from cxrflow.compute.parallel import guarded_map
from cxrflow.errors import InputError

DEADLY = {
    20: "its decoder crashed (SIGABRT)",
    33: "its decoder crashed (SIGSEGV)",
    34: "its decoder crashed (exit code 3)",
    70: "it took more than 0.1 s of processor time",
    71: "no answer in 3 s",
}


def squared(item: int) -> int | str:
    """What some items end their process by."""
    if item == 20:
        os.abort()
    if item == 33:
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == 34:
        os._exit(3)
    while item == 70:
        pass
    if item == 71:
        time.sleep(60)
    return item**2


def lost(item: int, reason: str) -> str:
    return f"{item}: {reason}"


@pytest.mark.parametrize("processes", [1, 3])
def test_an_item_that_ends_its_process_costs_itself_alone(processes, monkeypatch):
    monkeypatch.setattr("cxrflow.compute.parallel.PATIENCE", 30)
    found = list(guarded_map(squared, range(100), processes, lost, 0.1))
    assert found == [f"{i}: {DEADLY[i]}" if i in DEADLY else i**2 for i in range(100)]


def killed(folder: Path, times: int, item: int) -> int:
    """Item 5 is killed so many times, as the system does where memory is short."""
    if item == 5 and len(list(folder.iterdir())) < times:
        (folder / str(time.monotonic_ns())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_what_the_system_killed_is_tried_once_more(tmp_path: Path) -> None:
    assert list(guarded_map(partial(killed, tmp_path, 1), range(9), 1, lost, 9)) == [*range(9)]
    with pytest.raises(InputError, match=r"^5: a worker process .* \(out of memory\?\)"):
        list(guarded_map(partial(killed, tmp_path, 9), range(9), 1, lost, 9))


def broken(item: int) -> int:
    """A defect of ours."""
    return 1 // item


def test_an_error_of_ours_comes_back_with_its_place() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        list(guarded_map(broken, [2, 1, 0], 1, lost, 9))
    assert any("in broken" in note for note in error.value.__notes__)


def test_work_can_be_left_in_its_middle() -> None:
    items = [*range(32), 70, *range(200)]  # the second block never ends
    with closing(guarded_map(squared_quickly, items, 2, lost, 600)) as answers:
        assert next(answers) == 0


def squared_quickly(item: int) -> int | str:
    return squared(item) if item == 70 else item**2
