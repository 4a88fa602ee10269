"""Progress of long work: parts pass unchanged; lines in a log, but none for short work."""

import logging

import pytest

from cxrflow.compute import progress as module
from cxrflow.compute.progress import progress


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
