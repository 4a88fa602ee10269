"""metrics.jsonl and TensorBoard after a run that was killed and went on."""

import json
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cxrflow.training.metrics_log import MetricsLog


def test_each_step_stands_once_after_a_resume(tmp_path: Path) -> None:
    first = MetricsLog(tmp_path, 0)
    for step in (1, 2, 3):
        first.write("train", step, {"loss": float(step), "mlm": 0.5})
    first.close()
    first.close()
    with open(tmp_path / "metrics.jsonl", "a") as handle:
        handle.write('{"step": 4, "los')  # killed while writing

    again = MetricsLog(tmp_path, 2)  # the last saved state was that of step 2
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
