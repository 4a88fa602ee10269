"""Three notebooks of the documentation: labels, a training on a folder, retrieval with a model."""

from pathlib import Path

import numpy as np
import pytest
from tiny_hospital import Stages

from notebook_cells import run_cells


def test_reports_are_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_cells("labels")
    assert names["labels"].loc["a", "Pleural Effusion"] == 1
    assert names["labels"].loc["b"].dropna().to_dict() == {
        "Cardiomegaly": 1.0,
        "Edema": 0.0,
        "outcome": "labelled",
        "unread": 0,
    }
    assert "1 of 2 labels agree" in capsys.readouterr().out


def test_a_folder_becomes_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_cells("hospital", PATIENTS=16, PIXELS=32, STEPS=2)
    assert set(names["pairs"]["split"]) == {"train", "validate", "test"}
    assert names["model"].takes_prior is False and names["cosines"].shape == (2,)
    assert (tmp_path / "my_model/joint/run.json").is_file()


def test_a_model_retrieves(
    finished: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = {
        "models/biovil/biovil/seed0": finished.models / "joint",
        "cohorts/biovil/mimic_cxr": finished.cohort,
        "phantom/mimic_cxr_jpg": finished.data("mimic_cxr"),
    }
    for name, folder in results.items():
        link = tmp_path / "results" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    (tmp_path / "docs/notebooks").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "docs/notebooks")
    names = run_cells("retrieval", SENTENCES=1)
    count = len(names["test"])
    assert names["cosines"].shape == (count, count) and np.abs(names["cosines"]).max() < 1.001
    one = names["model"].similarities(names["files"][0], names["reports"])
    np.testing.assert_allclose(names["cosines"][0], one[0], atol=1e-5)
