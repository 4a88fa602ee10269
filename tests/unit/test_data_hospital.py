"""A hospital's own folder: dates, views, and images that are there twice."""

from pathlib import Path

import pandas as pd
import pytest

from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.errors import InputError


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


def test_two_files_of_one_image_are_one_and_counted(tmp_path: Path) -> None:
    lines = "study_id,patient_id\na,p\n"
    tables = read(hospital(tmp_path, lines, "a_1.dcm", "a_1.png", "a_2.dcm"))
    assert tables.images["image_path"].tolist() == ["images/a_1.png", "images/a_2.dcm"]
    assert [(drop.reason, drop.count) for drop in tables.dropped["images"]] == [
        ("a second file of the same image", 1)
    ]
    assert tables.dropped["images"][0].examples == ("images/a_1.dcm",)
