"""An audit of data sets: what they share, by ids and by pictures, and what is damaged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from data_fixtures import write_csv
from PIL import Image

from cxr_files.errors import InputError
from cxrflow.commands.audit.audit import main
from cxrflow.commands.audit.sets import layout_of, read_sets
from cxrflow.data.readers.chexpert import OBSERVATIONS

LABELS = ["0.0"] * len(OBSERVATIONS)


def radiograph(seed: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 255, (7, 6), dtype=np.uint8)
    return Image.fromarray(small).resize((96, 112), Image.Resampling.BICUBIC)


@pytest.fixture
def chexpert(tmp_path: Path) -> Path:
    """Patients 1 to 6 train, 101 and 102 are valid; a picture each, called by its number."""
    root = tmp_path / "CheXpert"
    for part, patients in (("train", range(1, 7)), ("valid", (101, 102))):
        rows = []
        for n in patients:
            name = f"{part}/patient{n:05d}/study1/view1_frontal.jpg"
            (root / name).parent.mkdir(parents=True)
            radiograph(n).save(root / name, quality=95)
            rows.append([name, "Frontal", "AP", *LABELS])
        write_csv(root / f"{part}.csv", ("Path", "Frontal/Lateral", "AP/PA", *OBSERVATIONS), rows)
    return root


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """CheXpert's patients under other names of studies and files, two of them under new numbers."""
    root = tmp_path / "own"
    (root / "images").mkdir(parents=True)
    patients = {"a": "patient00001", "b": "patient00101", "c": "x7", "d": "x8", "e": "patient99999"}
    shown = {"a": 1, "b": 101, "c": 2, "d": 102, "e": 55}
    for study, seed in shown.items():
        radiograph(seed).resize((48, 56)).save(root / f"images/{study}_1.png")
    (root / "images/e_2.png").write_bytes((root / "images/e_1.png").read_bytes()[:90])
    write_csv(root / "studies.csv", ("study_id", "patient_id"), list(patients.items()))
    return root


def audit(tmp_path: Path, *words: object) -> dict[tuple[str, ...], dict[str, Any]]:
    """Findings by their sets and what is counted."""
    main([*map(str, words), "--output", str(tmp_path / "audit")])
    content = json.loads((tmp_path / "audit/audit.json").read_text())
    return {(*one["sets"], one["what"]): one for one in content["findings"]}


def test_a_set_in_another_folder_is_found_by_ids_and_by_pictures(
    tmp_path: Path, chexpert: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = audit(tmp_path, chexpert, own)
    both = ("chexpert", "hospital")
    patients = found[(*both, "patients with equal ids (not known to be numbered in one way)")]
    assert (patients["count"], patients["of"]) == (2, 8)
    assert patients["parts"] == {"train and no part": 1, "validate and no part": 1}
    copies = found[(*both, "images that are there as a copy")]
    assert copies["count"] == 4
    assert copies["parts"] == {"train and no part": 2, "validate and no part": 2}
    (damaged,) = [
        one for (name, *_), one in found.items() if one["what"].startswith("images that ca")
    ]
    assert damaged["sets"] == ["hospital"] and damaged["count"] == 1
    assert "damaged image file" in damaged["what"]
    assert len(found) == 3
    assert "4 of 8 images that are there as a copy (train and no part 2" in capsys.readouterr().out
    pictures = pd.read_csv(tmp_path / "audit/pictures.csv")
    assert len(pictures) == 8 and pictures["picture"].nunique() == 4
    page = (tmp_path / "audit/index.html").read_text()
    assert "patient00001" in page and "<img" not in page


def test_a_set_says_how_its_patients_are_numbered(
    tmp_path: Path, chexpert: Path, own: Path
) -> None:
    found = audit(tmp_path, chexpert, f"mine:hospital@chexpert={own}", "--pictures")
    assert found[("chexpert", "mine", "patients with equal ids")]["count"] == 2
    assert (tmp_path / "audit/index.html").read_text().count("<img src") == 8


def test_lists_and_folders_of_images(tmp_path: Path, chexpert: Path) -> None:
    for n, seed in enumerate((1, 1, 3, 4)):
        radiograph(seed).save(tmp_path / f"{n}.png")
    rows = [("0.png", "p", "train"), ("1.png", "q", "test"), ("2.png", "r", "train"),
            ("3.png", "r", "val"), ("4.png", "s", "test")]  # fmt: skip
    write_csv(tmp_path / "mine.csv", ("path", "patient", "part"), rows)
    found = audit(tmp_path, tmp_path / "mine.csv", chexpert / "train")
    assert found[("mine", "patients in two parts")]["parts"] == {"train and validate": 1}
    other = found[("mine", "images whose picture another patient has")]
    assert (other["count"], other["examples"]) == (2, ["0.png", "1.png"])
    apart = found[("mine", "images whose picture is in another part")]
    assert (apart["count"], apart["parts"]) == (2, {"test and train": 2})
    assert found[("mine", "images that cannot be used: file not found")]["examples"] == ["4.png"]
    assert found[("mine", "train", "images that are there as a copy")]["count"] == 4
    assert len(found) == 5


def test_nothing_is_said_of_strangers(
    tmp_path: Path, chexpert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "others").mkdir()
    for seed in range(200, 206):
        radiograph(seed).save(tmp_path / f"others/{seed}.png")
    assert audit(tmp_path, chexpert, tmp_path / "others") == {}
    assert "nothing is shared, and nothing is damaged" in capsys.readouterr().out


def test_what_is_no_set_is_refused(tmp_path: Path, chexpert: Path, own: Path) -> None:
    (tmp_path / "empty").mkdir()
    for item, message in (
        (tmp_path / "none", "no such folder or list; expected a data set"),
        (tmp_path / "empty", "has no list of a data set and no image"),
        (f"chexprt={chexpert}", "layout 'chexprt' is unknown"),
    ):
        with pytest.raises(InputError, match=message):
            read_sets([str(item)])
    with pytest.raises(InputError, match="names a set twice"):
        read_sets([str(chexpert), str(chexpert)])
    found, hospital = layout_of(chexpert), layout_of(own)
    assert found is not None and found.name == "chexpert"
    assert hospital is not None and hospital.name == "hospital"
    names = [
        one.name for one in read_sets([str(own), f"hospital={chexpert.parent / 'own'}/../own"])
    ]
    assert len(set(names)) == 2
