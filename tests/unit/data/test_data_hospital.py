"""A hospital's own folder: dates, views, and images that are there twice."""

import os
from pathlib import Path

import pandas as pd
import pytest
from cohort_fixtures import cohort
from data_fixtures import corpus, covid_chestxray

from cxr_files.errors import InputError
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.cohorts.splits import assign
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables


def read(root: Path) -> Tables:
    return layout("hospital").read(root, Request())


def hospital(root: Path, lines: str, *images: str) -> Path:
    (root / "images").mkdir(parents=True)
    (root / "studies.csv").write_text(lines)
    for name in images:
        (root / "images" / name).write_bytes(b"a picture")
    return root


def test_a_hospitals_dates_and_views(tmp_path: Path) -> None:
    lines = (
        "study_id,patient_id,date,view\na,p,2026-01-31,PA;lateral\n"
        "b,p,2026-01-31T12:30,PA\nc,p,31.1.2026,\n"
    )
    names = ("a_2.png", "a_10.jpg", "b_1.png", "b_2.png", "c_1.dcm")
    tables = read(hospital(tmp_path, lines, *names))
    studies = tables.studies.set_index("study_id")
    assert studies["study_time"].tolist()[:2] == [
        *("2026-01-31T00:00:00.000", "2026-01-31T12:30:00.000")
    ]
    assert studies["order"]["a"] < studies["order"]["b"] and pd.isna(studies["order"]["c"])
    assert "column 'date' of 1 studies is not written 2026-01-31" in tables.notes[0]
    views = tables.images.set_index("image_id")["view"]
    assert views.dropna().to_dict() == {"a_2": "PA", "a_10": "LATERAL", "b_1": "PA", "b_2": "PA"}
    (tmp_path / "images/a_3.png").write_bytes(b"a picture")
    with pytest.raises(InputError, match="'view' of study a is 'PA;lateral'.*each of its 3 images"):
        read(tmp_path)


def test_patients_who_share_a_file_are_in_one_part(tmp_path: Path) -> None:
    """a and b share a file, b and c another: all three are together; d's has only the same size."""
    names = {"a_1.png": 1, "b_1.png": 1, "b_2.dcm": 2, "c_1.dcm": 2, "d_1.png": 3, "d_2.png": 3}
    lines = "study_id,patient_id\n" + "".join(f"{study},p{study}\n" for study in "abcde")
    hospital(tmp_path, lines, *names, "e_1.png")
    for name, content in names.items():
        middle = bytes(5000) + bytes([content]) + bytes(5000)
        (tmp_path / "images" / name).write_bytes(middle)
    tables = read(tmp_path)
    assert tables.together == {"pa": "pa", "pb": "pa", "pc": "pa"}
    (note,) = tables.notes
    assert note.startswith(
        "4 image files of 3 patients are the same as one of another patient (e.g. im"
    )
    patients = pd.Series([f"p{name}" for name in "abcdefghijklmnopqrst"])
    settings = CohortSettings(kind="pairs")
    apart = assign(patients, None, {}, settings, "here")
    assert apart.equals(assign(patients, None, {}, settings, "here", {}))
    for seed in range(20):
        splits = settings.splits.model_copy(update={"seed": seed})
        drawn = settings.model_copy(update={"splits": splits})
        parts = assign(patients, None, {}, drawn, "here", tables.together)
        assert len(set(parts[["pa", "pb", "pc"]])) == 1 and parts.notna().all()
    held = assign(patients, None, {"x": frozenset({"pc"})}, settings, "here", tables.together)
    assert set(held[["pa", "pb", "pc"]]) == {"test"}


def test_what_is_no_file_with_a_name_that_can_be_written_is_counted(tmp_path: Path) -> None:
    hospital(tmp_path, "study_id,patient_id\na,p\n", "a_1.png")
    folder = tmp_path / "images"
    (folder / os.fsdecode(b"\xe9_1.png")).write_bytes(b"a picture")
    (folder / "a_2.png").mkdir()
    os.mkfifo(folder / "a_3.png")
    (folder / "a_4.png").symlink_to(folder / "nowhere.png")
    tables = read(tmp_path)
    assert tables.images["image_path"].tolist() == ["images/a_1.png"]
    (drop,) = tables.dropped["images"]
    assert drop.count == 4 and drop.failed and "images" not in drop.examples[0]
    assert b"\\udce9_1.png" in str(drop.examples).encode()


def test_names_that_differ_in_an_s_are_two_studies(tmp_path: Path) -> None:
    """The s before the number is MIMIC-CXR's, and part of any other hospital's name."""
    lines = "study_id,patient_id\ns101,p\n101,q\n"
    root = hospital(tmp_path / "own", lines, "s101_1.png", "101_1.png")
    texts = corpus(tmp_path / "corpus", ["s101", "101"])
    text = pd.read_parquet(texts / "sections.parquet")
    text.assign(impression=["Of s101.", "Of 101."]).to_parquet(texts / "sections.parquet")
    options = ["--layout", "hospital", "--root", root, "--corpus", texts]
    _, pairs = cohort(tmp_path / "out", *options, index="study_id", views=None)
    assert pairs["impression"].to_dict() == {"s101": "Of s101.", "101": "Of 101."}
    assert len(pd.read_parquet(tmp_path / "out/documents.parquet")) == 2
    for name in ("musculoskeletal", "captioned_pictures"):
        assert layout(name).study_prefix == ""


def test_names_that_become_one_are_refused(tmp_path: Path) -> None:
    """Of covid-chestxray's, which are files, corpora have the name without its ending."""
    root = covid_chestxray(tmp_path / "covid")
    with (root / "metadata.csv").open("a") as table:
        table.write("3,0,PA,X-ray,a.png,\n")
    (root / "images/a.png").write_bytes(b"a picture")
    options = ["--layout", "covid_chestxray", "--root", root]
    options += ["--corpus", corpus(tmp_path / "corpus", ["a.jpg"])]
    with pytest.raises(InputError, match=r"covid: studies a.jpg and a.png are both called 'a' w"):
        cohort(tmp_path / "out", *options)


def test_two_files_of_one_image_are_one_and_counted(tmp_path: Path) -> None:
    lines = "study_id,patient_id\na,p\n"
    tables = read(hospital(tmp_path, lines, "a_1.dcm", "a_1.png", "a_2.dcm"))
    assert tables.images["image_path"].tolist() == ["images/a_1.png", "images/a_2.dcm"]
    assert [(drop.reason, drop.count) for drop in tables.dropped["images"]] == [
        ("a second file of an image, which is read from the first of .png, .jpg, .jpeg, .dcm", 1)
    ]
    assert tables.dropped["images"][0].examples == ("images/a_1.dcm",)
