"""What a training costs is measured by the training itself."""

import json
import sys
from pathlib import Path

import pytest
from speed import training_cost

ROOT = Path(__file__).parents[2]


def test_steps_are_timed_and_stand_for_the_whole_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training_cost, "DOCUMENTS", 300)
    words = ["--configfile", str(ROOT / "config.yaml"), "--images", "80", "--processes", "1"]
    words += ["--models", "biovil/cxr_bert_phase2", "biovil_t/biovil_t"]
    words += ["--steps", "2", "--warm-up", "1", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["training_cost", *words, "--work", str(tmp_path / "work")])
    training_cost.main()
    measured, failed = json.loads((tmp_path / "training_cost.json").read_text())["rows"]
    assert measured["samples_per_second"] == pytest.approx(
        measured["batch"] / measured["seconds_per_step"], rel=0.01
    )
    hours = measured["whole_steps"] * measured["seconds_per_step"] / 3600
    assert measured["whole_hours"] == pytest.approx(hours, rel=0.01, abs=0.006)
    assert "biovil/biovil, which is not in" in failed["failed"]
