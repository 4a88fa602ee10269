"""In a rehearsal a training is asked to stop after its first step, goes on, and is marked."""

import sys
from pathlib import Path

import pytest
from toy_training import train

from cxr_files.atomic import read_json
from cxrflow.kinds import REHEARSAL
from cxrflow.training.launch import interrupted_once

# A training that waits for the signal, and the start that goes on.
TRAINING = """
import signal, sys, time
from pathlib import Path
state, output, first, second = Path(sys.argv[2]), Path(sys.argv[4]), *map(int, sys.argv[5:7])
state.mkdir(exist_ok=True)
if not (state / "saved").exists():
    def stop(*_):
        (state / "saved").touch()
        sys.exit(first)
    signal.signal(signal.SIGTERM, stop)
    (state / "metrics.jsonl").write_text("a step")
    time.sleep(60)
if second == 0:
    output.mkdir()
sys.exit(second)
"""


@pytest.mark.parametrize(("first", "second", "status"), [(75, 0, 0), (75, 2, 2), (3, 0, 3)])
def test_it_is_stopped_and_started_again(tmp_path: Path, first, second, status):
    state, output = tmp_path / "state", tmp_path / "model"
    program = ["--state", str(state), "--output", str(output), str(first), str(second)]
    command = [sys.executable, "-c", TRAINING, *program]
    assert interrupted_once(command, program) == status
    assert (state / "saved").exists() and output.exists() == (status == 0)


def test_its_record_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REHEARSAL, "{}")
    train(tmp_path, settings={"epochs": 1})
    assert read_json(tmp_path / "run/run.json")["rehearsal"] is True
