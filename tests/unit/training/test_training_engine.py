"""The engine: exact resume under real SIGKILL, SIGTERM, damaged state, wrong settings, two runs."""

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from literal import identical
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_training import train, train_and_tell

from cxr_files.errors import InputError
from cxr_files.outputs import claim_folder
from cxrflow.training.engine import Engine
from cxrflow.training.metrics_log import MetricsLog
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.state import StateFolder, read_checked, write_checked
from gloo_processes import CONTEXT

TOY = Path(__file__).parents[1] / "toy_training.py"


def start(folder: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(TOY), str(folder), json.dumps(options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def wait_until_training(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not (folder / "state-run" / "metrics.jsonl").is_file():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def weights(path: Path) -> dict[str, torch.Tensor]:
    modules = torch.load(path, weights_only=True)
    return {f"{m}.{name}": value for m in modules for name, value in modules[m].items()}


def lines(folder: Path) -> list[dict[str, float | str]]:
    """What the log says, but for the time."""
    read = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    timed = ("time", "data_wait")
    return [{name: line[name] for name in line if name not in timed} for line in read]


def assert_same_run(first: Path, second: Path) -> None:
    """Weights, a method's own state, checkpoints and the log, with rates and every value."""
    files = sorted(path.relative_to(first) for path in first.rglob("weights.pt"))
    assert len(files) > 3
    assert files == sorted(path.relative_to(second) for path in second.rglob("weights.pt"))
    for file in files:
        identical(weights(first / file), weights(second / file))
    assert lines(first) == lines(second)
    said, again = (json.loads((folder / "run.json").read_text()) for folder in (first, second))
    assert said["permuted_pairs"] == again["permuted_pairs"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    train(folder)
    return folder / "run"


def test_sigkill_at_random_moments_changes_nothing(undisturbed, tmp_path, caplog):
    generator = random.Random(7)
    kills = 0
    for _ in range(6):
        begun = CONTEXT.Event()
        process = CONTEXT.Process(target=train_and_tell, args=(begun, tmp_path))
        process.start()
        assert begun.wait(60)
        time.sleep(generator.uniform(0.0, 1.5))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert kills >= 3
    with caplog.at_level(logging.INFO, "cxrflow"):
        train(tmp_path)
    assert "resuming at step" in caplog.text
    assert_same_run(undisturbed, tmp_path / "run")
    assert not (tmp_path / "state-run").exists(), "the state is dropped after success"


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_record_is_that_of_the_kept_weights(undisturbed, tmp_path, keep):
    folder = undisturbed
    if keep == "last":
        stopping = {"keep": "last", "monitor": "score", "mode": "max"}
        train(tmp_path, settings={"stopping": stopping})
        folder = tmp_path / "run"
    run = json.loads((folder / "run.json").read_text())
    validations = {one["step"]: one for one in lines(folder) if one["split"] == "validate"}
    assert run["kept_step"] in validations
    losses = [said["loss"] for step, said in validations.items() if step <= run["kept_step"]]
    assert run["permuted_pairs"]["losses"] == losses
    assert (run["kept_step"] == run["steps"]) or keep == "best"


def test_a_line_leaves_counts_by_class_to_the_metrics_log():
    engine = SimpleNamespace(totals={"samples": 8, "seconds": 2.0}, step=1, steps=3)
    values = {"loss": 1.0, "cutmix/pairs": 2.0, "cutmix/pairs/Edema": 2.0}
    said = Engine._line(engine, values)
    assert said == "step 1/3 loss 1.0000 cutmix/pairs 2.0000 4 samples/s, 4 s left"


def test_finished_run_is_not_trained_again(undisturbed, caplog):
    before = (undisturbed / "run.json").stat().st_mtime_ns
    with caplog.at_level(logging.INFO, "cxrflow"):
        train(undisturbed.parent)
    assert "finished already" in caplog.text
    assert (undisturbed / "run.json").stat().st_mtime_ns == before


def test_sigterm_saves_and_exits_75(undisturbed: Path, tmp_path: Path) -> None:
    process = start(tmp_path, pause=0.05, settings={"save_minutes": 60})
    wait_until_training(tmp_path)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 75, error
    assert "start the same command again" in error and "Traceback" not in error
    changed = {"optimiser": {"learning_rate": 0.5}}
    with pytest.raises(InputError, match=r"optimiser\.learning_rate: 0\.02 -> 0\.5"):
        train(tmp_path, settings=changed)
    train(tmp_path)
    assert_same_run(undisturbed, tmp_path / "run")


def test_a_state_that_other_code_made_is_gone_on_with_and_said(tmp_path, caplog):
    said = []
    for code, until in (("first", 30), ("second", 60), ("second", None)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "cxrflow"):
            if until is None:
                train(tmp_path, code=code)
            else:
                with pytest.raises(InputError, match=f"is nan at step {until}"):
                    train(tmp_path, code=code, break_at=until, pause=0.01)
        said.append([line for line in caplog.messages if "other code" in line])
    assert [len(lines) for lines in said] == [0, 1, 0]
    assert "state-run: its state of step" in said[1][0]
    assert "was made by other code (first, now second); going on with it" in said[1][0]
    assert json.loads((tmp_path / "run/run.json").read_text())["codes"] == ["first", "second"]


def test_a_state_that_fits_no_longer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is nan at step 30"):
        train(tmp_path, break_at=30, pause=0.01)
    with pytest.raises(InputError, match=r"state-run: its state of step \d+ does not fit.*Delete"):
        train(tmp_path, width=12)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended at step 30 with its state saved; not to be changed."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(InputError, match="is nan at step 30"):
        train(folder, break_at=30)
    return folder


def drop(*keys):
    def change(state):
        for key in keys[:-1]:
            state = state[key]
        del state[keys[-1]]

    return change


def put(content, *keys):
    def change(state):
        for key in keys[:-1]:
            state = state[key]
        state[keys[-1]] = content

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("modules"), "'modules' is missing"),
        (drop("step"), "'step' is missing"),
        (drop("totals", "seconds"), "'totals.seconds' is missing"),
        (drop("modules", "model", "0.weight"), "'modules.model.0.weight' is missing"),
        (put(torch.zeros(3), "modules", "model", "0.bias"), r"has shape \[3\], expected \[16\]"),
        (put(torch.zeros(16).long(), "modules", "model", "0.bias"), "is torch.int64, expected"),
        (put("x", "modules", "model"), "'modules.model' is a str, expected"),
        (put("12", "step"), "'step' is a str, expected int"),
        (put(True, "step"), "'step' is a bool, expected int"),
        (put("x", "flops"), "'flops' is a str, expected int"),
        (put([], "monitor"), "'monitor' is a list, expected dict"),
        (put(1, "monitor", "other"), "'monitor.other' belongs to nothing"),
        (put([], "optimiser", "param_groups"), "'optimiser.param_groups' has 0 entries"),
        (drop("optimiser", "state", 0, "momentum_buffer"), None),  # none was kept of it yet
        (
            put(torch.zeros(2), "optimiser", "state", 0, "momentum_buffer"),
            r"'optimiser.state.0.momentum_buffer' has shape \[2\], expected \[16, 8\]",
        ),
        (put({"exp": torch.zeros(2)}, "optimiser", "state", 1), "what an optimiser keeps"),
        (put({}, "optimiser", "state", 99), "'optimiser.state.99' belongs to no parameter"),
    ],
)
def test_a_state_with_its_checksum_and_other_content_is_one_line(stopped, tmp_path, change, said):
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "state-run").glob("step-*.pt"):
        state = read_checked(path)
        change(state)
        write_checked(path, state)
    expected = f"does not fit.*{said}.*Delete" if said else "is nan at step 40"
    with pytest.raises(InputError, match=expected):
        train(tmp_path, break_at=40)


@pytest.mark.parametrize("content", [torch.zeros(2), [1], "x"])
def test_a_state_that_is_none_is_one_line(stopped, tmp_path, content):
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "state-run").glob("step-*.pt"):
        write_checked(path, content)
    with pytest.raises(InputError, match="'the whole' is a .*, expected dict.*Delete"):
        train(tmp_path)


def test_best_weights_of_another_model_are_one_line(stopped, tmp_path):
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "state-run").glob("best-*.pt"):
        write_checked(path, {"model": {}, "follower": {}})
    with pytest.raises(InputError, match="its best weights do not fit.* is missing.*Delete"):
        train(tmp_path)


def test_a_checksum_before_what_is_no_state_is_one_line(tmp_path):
    path = tmp_path / "step-000000001.pt"
    path.write_bytes(sha256(b"no tensors").digest() + b"no tensors")
    with pytest.raises(InputError, match=f"{path}: cut off or not a file of weights.*delete it"):
        read_checked(path)


def test_second_process_on_one_run_leaves_with_a_line(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state-run")
    with state.locked(), pytest.raises(InputError, match=f"another process .process {os.getpid()}"):
        train(tmp_path)


def test_another_product_in_its_place_is_refused_before_the_training(tmp_path: Path) -> None:
    claim_folder(tmp_path / "run", "cohort")
    with pytest.raises(InputError, match=r"another product \(cohort\), not an earlier model"):
        train(tmp_path)
    assert not (tmp_path / "state-run").exists()


def test_not_finite_loss_names_step_term_and_samples(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="term 'square' is nan at step 5; .* sample-"):
        train(tmp_path, break_at=5)


def test_too_little_memory_names_what_helps(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        train(tmp_path, exhaust_at=3)
    assert str(caught.value) == (
        "toy: not enough memory on cpu; what helps: a smaller training.batch_size, a smaller length"
    )


def test_speed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cxrflow"):
        train(tmp_path, pause=0.02)
    assert "waited for data" in caplog.text
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    # A batch of 20 through two layers, 8 to 16 to 2 values; the input needs no gradient, the other
    # network none at all.
    assert run["flops_per_step"] == 20 * 2 * (2 * 8 * 16 + 3 * 16 * 2) + 20 * 2 * (8 * 16 + 16 * 2)
    rate = run["flops_per_step"] * run["steps"] / run["seconds"]
    assert run["flops_per_second"] == pytest.approx(rate, rel=1e-2)
    assert run["mfu"] is None and run["peak_flops_per_second"] is None  # a CPU
    # Every step sleeps before the model gets its batch: 120 times 0.02 s.
    assert 2.39 < run["data_wait_share"] * run["seconds"] < run["seconds"]


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


def test_damaged_best_weights_are_never_taken(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.save_best(5, {"value": torch.arange(2000.0)})
    torch.testing.assert_close(folder.load_best(5)["value"], torch.arange(2000.0))
    best = tmp_path / "best-000000005.pt"
    content = best.read_bytes()
    best.write_bytes(content[:4000] + bytes(len(content) - 4000))
    for step in (5, 6):
        with pytest.raises(InputError, match=r"best-00000000[56].pt: missing or damaged"):
            folder.load_best(step)


def test_the_state_before_keeps_the_best_weights_it_names(tmp_path: Path) -> None:
    def save(folder: StateFolder, step: int, best: int) -> None:
        folder.save_best(best, {"value": torch.tensor(float(best))})
        folder.save(step, {"step": step, "best": best})
        folder.keep_best(best)

    def kept() -> list[int]:
        return [int(path.stem.partition("-")[2]) for path in sorted(tmp_path.glob("best-*.pt"))]

    folder = StateFolder(tmp_path)
    for step, best in ((10, 10), (20, 20), (30, 25)):
        save(folder, step, best)
    assert kept() == [20, 25]  # of the states of steps 20 and 30
    save(folder, 30, 25)  # asked to stop right after
    assert kept() == [20, 25]
    newest = tmp_path / "step-000000030.pt"
    newest.write_bytes(newest.read_bytes()[:-7])
    again = StateFolder(tmp_path)
    state = again.load()
    assert state is not None and again.load_best(state["best"])["value"] == 20
    again.keep_best(state["best"])
    save(again, 40, 40)
    save(again, 50, 40)
    assert kept() == [40]


def test_a_state_of_an_unknown_run_is_not_resumed(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.claim({"settings": {}})
    folder.save(1, {"step": 1})
    (tmp_path / "identity.json").write_text('{"settings": {')
    with pytest.raises(InputError, match=f"identity.json: not valid.*Delete {tmp_path} to start"):
        folder.claim({"settings": {}})


def test_full_disk_while_saving_keeps_the_state_before(tmp_path, monkeypatch):
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


def test_a_run_has_one_length() -> None:
    with pytest.raises(ValueError, match="exactly one of epochs and steps"):
        TrainingSettings(epochs=1, steps=1)


def test_a_log_with_other_numbers_than_were_saved_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsLog(tmp_path, 0)
    first.write("train", 1, {"loss": 0.5})
    digest = first.flush()
    first.write("train", 2, {"loss": 0.25})  # after the state was saved
    first.close()
    content = path.read_text()
    with caplog.at_level("WARNING"):
        again = MetricsLog(tmp_path, 1, digest)
        assert not caplog.text
        again.write("train", 2, {"loss": 0.25})
        digest = again.flush()
        again.close()
        MetricsLog(tmp_path, 2, digest).close()
        assert not caplog.text
        path.write_text(content.replace("0.5", "0.7"))
        MetricsLog(tmp_path, 2, digest).close()
        assert f"{path}: damaged, its lines up to step 2 are not those" in caplog.text
        caplog.clear()
        path.unlink()
        MetricsLog(tmp_path, 2, digest).close()
        assert f"{path}: damaged" in caplog.text


def test_each_step_stands_once_after_a_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = MetricsLog(tmp_path, 0)
    for step in (1, 2, 3):
        first.write("train", step, {"loss": float(step), "mlm": 0.5})
    first.close()
    first.close()
    damaged = '{"step"; 1}\n{"split": "train"}\n[1]\n\xff}\n'
    with open(tmp_path / "metrics.jsonl", "a", encoding="latin-1") as handle:
        handle.write(damaged + '{"step": 4, "los')  # killed while writing

    with caplog.at_level("WARNING"):
        again = MetricsLog(tmp_path, 2)  # the last saved state was that of step 2
    assert "metrics.jsonl: 4 damaged lines are left out" in caplog.text
    for step in (3, 4):
        again.write("train", step, {"loss": 10.0 * step})
    again.write("validate", 4, {"loss": 7.0})
    again.flush()
    (tmp_path / "model").mkdir()
    again.export(tmp_path / "model")

    lines = [json.loads(line) for line in (tmp_path / "model/metrics.jsonl").open()]
    trained = [("train", 1, 1.0), ("train", 2, 2.0), ("train", 3, 30.0), ("train", 4, 40.0)]
    found = [(line["split"], line["step"], line["loss"]) for line in lines]
    assert found == [*trained, ("validate", 4, 7.0)]
    events = EventAccumulator(str(tmp_path / "model/tensorboard")).Reload()
    assert sorted(events.Tags()["scalars"]) == ["train/loss", "train/mlm", "validate/loss"]
    found = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert found == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]
    assert events.Scalars("validate/loss")[0].value == pytest.approx(7.0)
