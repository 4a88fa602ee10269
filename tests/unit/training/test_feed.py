"""Batches prepared ahead: the same ones, beside a step, and errors where they count."""

import threading
from pathlib import Path

import pytest
import torch
from literal import identical
from toy_training import train

from cxr_files.errors import InputError
from cxrflow.training import step as steps
from cxrflow.training.step import Feed


def prepare_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread prepares batches, as on a GPU."""
    monkeypatch.setattr(steps, "Feed", lambda prepare, count, ahead: Feed(prepare, count, True))


def test_a_training_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "in turn")
    prepare_ahead(monkeypatch)
    train(tmp_path / "ahead")
    runs = [tmp_path / name / "run" for name in ("in turn", "ahead")]
    first, second = (torch.load(run / "weights.pt", weights_only=True) for run in runs)
    identical(first, second)


def test_the_next_batch_is_prepared_beside_a_step() -> None:
    begun = {number: threading.Event() for number in range(3)}
    threads = []

    def prepare(number: int) -> int:
        begun[number].set()
        threads.append(threading.current_thread())
        assert not torch.is_grad_enabled()
        return number * number

    feed = Feed(prepare, 3, ahead=True)
    assert feed.take(0) == 0
    assert begun[1].wait(10)  # the step that took batch 0 has not come back
    assert [feed.take(1), feed.take(2)] == [1, 4]
    feed.close()
    assert threading.main_thread() not in threads and len(threads) == 3


@pytest.mark.parametrize("ahead", [False, True])
def test_batches_are_those_of_the_steps_that_ask(ahead: bool) -> None:
    """A resumed run begins in the middle."""
    feed = Feed(lambda number: number, 9, ahead)
    assert [feed.take(number) for number in (4, 5, 7, 8)] == [4, 5, 7, 8]
    feed.close()


def failing(number: int) -> int:
    if number == 1:
        raise InputError("image 17 is damaged")
    return number


def test_an_error_is_raised_in_its_own_step() -> None:
    feed = Feed(failing, 3, ahead=True)
    assert feed.take(0) == 0
    with pytest.raises(InputError, match="image 17 is damaged"):
        feed.take(1)
    feed.close()


def test_a_training_ends_with_the_error_of_a_batch(tmp_path: Path, monkeypatch) -> None:
    prepare_ahead(monkeypatch)
    with pytest.raises(InputError, match="step 5 cannot be prepared"):
        train(tmp_path, unprepared=5, settings={"log_steps": 1})
    logged = (tmp_path / "state-run" / "metrics.jsonl").read_text().splitlines()
    assert len(logged) == 5  # steps 0 to 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feed")]
