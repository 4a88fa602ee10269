"""The fuzz programs notice what must not happen, and draw the same again by the same seed."""

import os
import random
import signal
from pathlib import Path

import pytest
from fuzz import dicom, folders, pictures, report_tables, reports, trial, weights
from fuzz.trial import Trial
from safetensors.torch import load_file, save_file

from cxr_files.errors import InputError


def misbehave(what: str) -> None:
    if what == "refused":
        raise InputError("no")
    if what == "traceback":
        raise KeyError("rows")
    if what == "death":
        os.kill(os.getpid(), signal.SIGSEGV)
    while what == "hang":
        pass


def test_what_must_not_happen_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.3)
    one = Trial("toy", seed=1, count=6, folder=tmp_path, workers=1)
    one.attempt(misbehave, ["fine", "refused", "traceback", "death", "hang"])
    assert one.outcomes == {"accepted": 1, "refused": 1, "fault": 3}
    words = ("KeyError: 'rows'", "crashed (SIGSEGV)", "more than 0.3 s of processor time")
    for fault, word in zip(one.faults, words, strict=True):
        assert word in fault


def test_programs_that_end_badly_are_faults(tmp_path: Path) -> None:
    one = Trial("toy", seed=1, count=1, folder=tmp_path)
    assert one.program(["json.tool", "--help"], 20).code == 0 and not one.faults
    one.program(["json.tool", "/absent/file"], 20)  # argparse: exit code 2, no traceback
    one.program(["this", "1"], 0.0)
    assert len(one.faults) == 1 and "still ran after" in one.faults[0]
    one.program(["timeit", "raise KeyError(3)"], 20)
    assert "exit code 1" in one.faults[1] and "KeyError: 3" in one.faults[1]


@pytest.mark.parametrize("kind", [dicom, pictures])
def test_a_seed_draws_the_same_files(tmp_path: Path, kind: object) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        (tmp_path / name).mkdir()
        one = Trial("kind", seed, 12, tmp_path)
        for number in range(12):
            kind.draw(one.random(number), tmp_path / name / str(number))  # type: ignore[attr-defined]
    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir() if path.is_file()}
        for name in ("one", "two", "three")
    ]
    assert contents[0] == contents[1] != contents[2]


def test_reports_keep_their_labels_in_other_clothes() -> None:
    for number in range(400):
        reports.check(reports.draw(random.Random(number)))


def test_a_changed_label_is_a_fault() -> None:
    wrong = reports.Case("No pneumonia.", {"Pneumonia": 0}, "Pneumonia.")
    with pytest.raises(AssertionError, match="is read as"):
        reports.check(wrong)


def test_drawn_weights_and_tables_are_refused_or_right(tmp_path: Path) -> None:
    weights.write_sound(tmp_path / "sound")
    outcomes = []
    for number in range(4):
        chance = random.Random(number)
        for kind, case in (
            (weights.load, weights.draw(chance, tmp_path / "sound", tmp_path / f"w{number}")),
            (report_tables.read, report_tables.draw(chance, tmp_path / f"t{number}")),
        ):
            try:
                kind(case)  # type: ignore[operator]
            except InputError:
                outcomes.append(kind)
    assert 0 < len(outcomes) < 8


def test_a_store_of_other_pixels_is_a_fault(tmp_path: Path) -> None:
    for name, geometry in (("sound", "shorter16"), ("other", "longer16")):
        (tmp_path / name).mkdir()
        folders.write_sound(tmp_path / name, tmp_path / name / "store", geometry)
    sound, other = tmp_path / "sound/store", tmp_path / "other/store"
    folders.read(folders.Case(sound, sound))
    with pytest.raises(AssertionError, match="opened whose pixels are others"):
        folders.read(folders.Case(other, sound))
    outcomes = []
    for number in range(8):
        try:
            folders.read(folders.draw(random.Random(number), sound, tmp_path / str(number)))
        except InputError:
            outcomes.append(number)
    assert 0 < len(outcomes) < 8


def test_weights_that_should_be_refused_are_faults_when_they_are_loaded(tmp_path: Path) -> None:
    weights.write_sound(tmp_path / "sound")
    with pytest.raises(AssertionError, match="loaded, though it is bad"):
        weights.load(weights.Case(tmp_path / "sound/own", "it is bad"))
    path = tmp_path / "sound/safetensors/model.safetensors"
    tensors = load_file(path)
    name = "bert.embeddings.LayerNorm.weight"
    save_file({**tensors, name: tensors[name].long()}, path, {"format": "pt"})
    with pytest.raises(InputError, match=f"{name} is torch.int64, expected floating-point"):
        weights.load(weights.Case(path.parent, ""))
    record = tmp_path / "sound/bin/export.json"
    record.write_text('{"geometry": 3}')
    with pytest.raises(InputError, match=r"export.json: field 'geometry' is a int; expected a str"):
        weights.load(weights.Case(record.parent, ""))
