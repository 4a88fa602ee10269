"""The engine: exact resume under real SIGKILL, SIGTERM, damaged state, wrong settings, two runs."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from cxrflow.errors import InputError
from cxrflow.training import optimiser as optimisers
from cxrflow.training.order import batch_rows, batches_per_epoch
from cxrflow.training.schedule import learning_rate_factor
from cxrflow.training.settings import OptimiserSettings, ScheduleSettings, TrainingSettings
from cxrflow.training.state import StateFolder

TOY = Path(__file__).with_name("toy_training.py")


def start(folder: Path, name: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(TOY), str(folder / f"state-{name}"), str(folder / name)]
    command.append(json.dumps(options))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    _, error = process.communicate(timeout=120)
    return error


def wait_until_training(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not (folder / "state-run" / "metrics.jsonl").is_file():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "weights.pt", weights_only=True)


def assert_same_weights(first: Path, second: Path) -> None:
    for name, value in weights(first).items():
        assert torch.equal(value, weights(second)[name]), name


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, "run")
    error = finish(process)
    assert process.returncode == 0, error
    return folder / "run"


def test_sigkill_at_random_moments_changes_nothing(undisturbed: Path, tmp_path: Path) -> None:
    generator = random.Random(7)
    kills = 0
    for _ in range(40):
        process = start(tmp_path, "run", pause=0.01)
        assert process.stderr is not None
        process.stderr.readline()  # it has begun; imports take as long as the machine is busy
        try:
            process.wait(timeout=generator.uniform(0.0, 1.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        if process.returncode == 0:
            break
    assert kills >= 1
    assert process.returncode == 0, finish(process)
    assert_same_weights(undisturbed, tmp_path / "run")
    assert not (tmp_path / "state-run").exists(), "the state is dropped after success"


def test_finished_run_is_not_trained_again(undisturbed: Path) -> None:
    before = (undisturbed / "run.json").stat().st_mtime_ns
    process = start(undisturbed.parent, "run")
    error = finish(process)
    assert process.returncode == 0 and "finished already" in error, error
    assert (undisturbed / "run.json").stat().st_mtime_ns == before


def test_sigterm_saves_and_exits_75(undisturbed: Path, tmp_path: Path) -> None:
    process = start(tmp_path, "run", pause=0.05, save_minutes=60)
    wait_until_training(tmp_path)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    error = finish(process)
    assert process.returncode == 75, error
    assert "start the same command again" in error and "Traceback" not in error
    again = start(tmp_path, "run")
    assert "resuming at step" in finish(again)
    assert_same_weights(undisturbed, tmp_path / "run")


def test_changed_setting_is_refused_and_named(tmp_path: Path) -> None:
    first = start(tmp_path, "run", pause=0.05)
    wait_until_training(tmp_path)
    first.send_signal(signal.SIGTERM)
    assert "state of step" in finish(first)
    second = start(tmp_path, "run", learning_rate=0.5)
    error = finish(second)
    assert second.returncode == 2
    assert "settings.training.optimiser.learning_rate: 0.01 -> 0.5" in error


def test_second_process_on_one_run_leaves_with_a_line(tmp_path: Path) -> None:
    first = start(tmp_path, "run", pause=0.1)
    deadline = time.monotonic() + 60
    while not (tmp_path / "state-run" / "identity.json").is_file():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    second = start(tmp_path, "run")
    error = finish(second)
    first.kill()
    first.wait()
    assert second.returncode == 2
    assert "another process" in error


def test_not_finite_loss_names_step_term_and_samples(tmp_path: Path) -> None:
    process = start(tmp_path, "run", break_at=5)
    error = finish(process)
    assert process.returncode == 2
    assert "term 'square' is nan at step 5" in error and "sample-" in error


def test_too_little_memory_names_what_helps(tmp_path: Path) -> None:
    process = start(tmp_path, "run", exhaust_at=3)
    error = finish(process)
    assert process.returncode == 2 and "Traceback" not in error
    last = error.splitlines()[-1]
    assert last == (
        "error: toy: not enough memory on cpu; what helps: a smaller training.batch_size, "
        "a smaller length"
    )


def test_speed_is_told(tmp_path: Path) -> None:
    process = start(tmp_path, "run", pause=0.02)
    error = finish(process)
    assert process.returncode == 0 and "waited for data" in error, error
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    # A batch of 20 through two layers, 8 to 16 to 2 values; the input needs no gradient.
    assert run["flops_per_step"] == 20 * 2 * (2 * 8 * 16 + 3 * 16 * 2)
    rate = run["flops_per_step"] * run["steps"] / run["seconds"]
    assert run["flops_per_second"] == pytest.approx(rate, rel=1e-2)
    assert run["mfu"] is None and run["peak_flops_per_second"] is None  # a CPU
    # Every step sleeps before the model gets its batch: 200 times 0.02 s.
    assert 3.99 < run["data_wait_share"] * run["seconds"] < run["seconds"]


def test_corrupt_newest_state_falls_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = StateFolder(tmp_path)
    for step in (1, 2, 3):
        folder.save(step, {"step": step, "value": torch.full((4,), float(step))})
    assert len(list(tmp_path.glob("step-*.pt"))) == 2
    newest = tmp_path / "step-000000003.pt"
    newest.write_bytes(newest.read_bytes()[:-7])
    state = folder.load()
    assert state is not None and state["step"] == 2
    assert "damaged" in caplog.text


def test_full_disk_while_saving_keeps_the_state_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StateFolder(tmp_path)
    folder.save(1, {"step": 1})

    def no_space(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_space)
    with pytest.raises(InputError, match="No space left on device"):
        folder.save(2, {"step": 2})
    monkeypatch.undo()
    state = folder.load()
    assert state is not None and state["step"] == 1


def test_schedule_warms_up_and_reaches_zero() -> None:
    settings = ScheduleSettings(decay="linear", warmup=0.1)
    factors = [learning_rate_factor(settings, step, 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9] == pytest.approx(1.0)
    assert factors[10] == pytest.approx(1.0)
    assert factors[-1] == pytest.approx(1 / 90)
    assert learning_rate_factor(settings, 100, 100) == 0


def test_every_sample_is_visited_once_an_epoch() -> None:
    rows = [batch_rows(103, 10, 3, 5, index) for index in range(batches_per_epoch(103, 10))]
    flat = [row for batch in rows for row in batch]
    assert len(flat) == len(set(flat)) == 100


def test_lars_scales_the_gradient_as_its_equation() -> None:
    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    module = torch.nn.Module()
    module.weight = weight
    settings = OptimiserSettings(
        name="adam", learning_rate=0.1, weight_decay=0.01, lars=True, lars_trust=0.001
    )
    optimiser = optimisers.build(settings, [module])
    weight.grad = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    optimisers.apply_lars(optimiser, settings.lars_trust)
    ratio = min(0.001 * 5.0 / (1.0 + 0.01 * 5.0) / 0.1, 1.0)
    wanted = (torch.tensor([[0.6, 0.8]]) + 0.01 * torch.tensor([[3.0, 4.0]])) * ratio
    torch.testing.assert_close(weight.grad, wanted.double(), rtol=1e-7, atol=0)


def test_decay_is_kept_off_biases_and_norms() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    decayed, free = optimisers.parameter_groups([layer, layer], 0.1)
    assert [tuple(p.shape) for p in decayed["params"]] == [(2, 3)]
    assert len(free["params"]) == 3 and free["weight_decay"] == 0


def test_a_run_has_one_length() -> None:
    with pytest.raises(ValueError, match="exactly one of epochs and steps"):
        TrainingSettings(epochs=1, steps=1)
