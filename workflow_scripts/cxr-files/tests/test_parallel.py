"""Guarded work: what an item's death, hang or error costs; and the progress that it tells."""

import logging
import os
import signal
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from cxr_files import progress as module
from cxr_files.errors import InputError
from cxr_files.parallel import guarded_map
from cxr_files.progress import progress

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
    monkeypatch.setattr("cxr_files.parallel.PATIENCE", 30)
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


class Clock:
    """A clock that goes on by ``step`` seconds each time it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


def lines(monkeypatch, caplog, step: float, parts: int) -> list[str]:
    """What is logged while ``parts`` parts of four things pass, each after ``step`` seconds."""
    monkeypatch.setattr(module, "time", Clock(step))
    with caplog.at_level(logging.INFO, logger="cxrflow"):
        given = [[number] * 4 for number in range(parts)]
        assert list(progress(given, 4 * parts, "report", title="corpus")) == given
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("step", "told", "rate"),
    [(4.0, range(20, 201, 20), 1.0), (0.5, (80, 160), 8.0), (0.01, (), 0)],
    ids=["a line every tenth", "ten seconds apart", "none for short work"],
)
def test_lines_of_a_log(monkeypatch, caplog, step, told, rate):
    said = lines(monkeypatch, caplog, step, parts=50)
    assert said == [f"corpus: {done} of 200, {rate} reports a second" for done in told]


def test_size_counts_what_a_part_holds(monkeypatch, caplog):
    monkeypatch.setattr(module, "time", Clock(20.0))
    with caplog.at_level(logging.INFO, logger="cxrflow"):
        assert list(progress(iter("ab"), 10, "image", size=lambda _: 5)) == ["a", "b"]
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{part} of 10, 0.2 images a second" for part in (5, 10)]


def test_a_terminal_gets_a_bar_and_no_lines(monkeypatch, caplog, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert lines(monkeypatch, caplog, step=20.0, parts=3) == []
    shown = capsys.readouterr().err
    assert "corpus: 100%" in shown and "12/12" in shown


def test_an_error_in_the_work_comes_through() -> None:
    def broken() -> object:
        yield [1]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(progress(broken(), 2, "report"))  # type: ignore[arg-type]
