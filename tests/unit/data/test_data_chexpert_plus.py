"""CheXpert Plus: dates from narratives, sections from wherever they stand, people of CheXpert."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import make
from data_fixtures import write_csv
from phantom_fixtures import SETTINGS
from PIL import Image

from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxr_labels.settings import ReportSettings
from cxrflow.commands.audit.audit import main as audit
from cxrflow.data.readers import chexpert_plus
from cxrflow.data.readers.common_tables import Request
from cxrflow.reports.chexpert_plus import reported
from cxrflow.reports.corpus import build_corpus
from cxrflow.reports.texts import read_texts

COLUMNS = (
    *("path_to_image", "frontal_lateral", "ap_pa", "deid_patient_id", "patient_report_date_order"),
    *("report", "section_narrative", "section_findings", "section_impression", "split"),
)

REPORT = "NARRATIVE:\nCHEST\n\nIMPRESSION:\n1. No effusion.\n\nEND OF IMPRESSION:\nSUMMARY: 4"


def row(patient: int, study: int, image: str = "view1_frontal", **changes: Any) -> dict[str, Any]:
    name = f"patient{patient:05d}"
    return {
        "path_to_image": f"train/{name}/study{study}/{image}.jpg",
        "frontal_lateral": "Frontal",
        "ap_pa": "AP",
        "deid_patient_id": name,
        "patient_report_date_order": study,
        "report": REPORT,
        "section_narrative": f"CHEST: {study}/2/2005",
        "section_findings": None,
        "section_impression": "1. No effusion.",
        "split": "train",
        **changes,
    }


def written(root: Path, *rows: dict[str, Any]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    table = [[one.get(name) for name in ("", *COLUMNS)] for one in rows]
    write_csv(root / "df_chexpert_plus_240401.csv", ("", *COLUMNS), table)
    for one in rows:
        path = root / "PNG" / Path(str(one["path_to_image"])).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.arange(400, dtype=np.uint8).reshape(20, 20)).save(path)
    return root


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("CHEST: 8-8-2005", "2005-08-08"),
        ("CHEST 8/8/2005, COMPARISON 7/1/2004", "2005-08-08"),
        ("2/14/19", "2019-02-14"),
        ("12/31/98", "1998-12-31"),
        ("9/16/2015 1323 hours", "2015-09-16 13:23"),
        ("9/16/2015 at 13:23", "2015-09-16 13:23"),
        ("1/2/2005 2 views", "2005-01-02"),
        ("2/30/2005", None),
        ("13/1/2005", None),
        ("CHEST, two views", None),
        (None, None),
    ],
)
def test_dates_of_narratives(text: str | None, time: str | None) -> None:
    (found,) = chexpert_plus.dates(pd.Series([text], dtype="str"))
    assert pd.isna(found) if time is None else found == pd.Timestamp(time)


def test_studies_are_in_the_order_of_their_dates(tmp_path: Path) -> None:
    rows = [
        row(1, 1, section_narrative="CHEST: 3/1/2005"),
        row(1, 2, section_narrative="CHEST: 1/1/2005"),
        row(1, 3, section_narrative="CHEST: 5/1/2005"),
        row(1, 4, section_narrative="CHEST"),
        row(2, 1),
        row(2, 2, section_narrative="CHEST"),
        row(2, 2, "view2_lateral", ap_pa=None, frontal_lateral="Lateral"),
    ]
    tables = chexpert_plus.read(written(tmp_path, *rows), Request())
    order = tables.studies.set_index("study_id")["order"]
    names = [f"patient00001/study{n}" for n in (2, 1, 3)]
    assert order[names].is_monotonic_increasing and pd.isna(order["patient00001/study4"])
    assert not pd.isna(order["patient00002/study2"])  # another image of it has a date
    assert tables.images["view"].tolist()[-1] == "LATERAL"
    assert tables.images["failure"].isna().all()
    assert tables.images["image_path"][0] == "PNG/train/patient00001/study1/view1_frontal.png"
    undated, against = tables.notes
    assert undated.startswith("1 of 6 studies have no date")
    assert "contradicts the dates in 1 of 3 neighbouring pairs" in against


def test_rows_that_are_no_image_are_counted(tmp_path: Path) -> None:
    rows = [row(1, 1), row(2, 1, path_to_image="train/study1.jpg"), row(3, 1, deid_patient_id="p")]
    tables = chexpert_plus.read(written(tmp_path, *rows), Request())
    assert len(tables.images) == 1
    assert [drop.count for drop in tables.dropped["images"]] == [1, 1]


def test_labels_are_of_the_impression_or_else_of_the_findings(tmp_path: Path) -> None:
    root = written(tmp_path, row(1, 1), row(2, 1), row(3, 1))
    unknown = dict.fromkeys(chexpert_plus.CLASSES)
    lines: dict[str, list[Any]] = {
        "impression": [{**unknown, "path_to_image": row(1, 1)["path_to_image"], "Edema": 1.0},
                       {**unknown, "path_to_image": row(2, 1)["path_to_image"]}],
        "findings": [{**unknown, "path_to_image": row(1, 1)["path_to_image"], "Edema": 0.0},
                     {**unknown, "path_to_image": row(2, 1)["path_to_image"], "Edema": -1.0}],
    }  # fmt: skip
    for name, of_file in lines.items():
        text = "".join(json.dumps(line) + "\n" for line in of_file)
        (root / f"{name}_fixed.json").write_text(text + "{cut off")
    tables = chexpert_plus.read(root, Request(labels=True))
    assert tables.labels.set_index("study_id")["Edema"].to_dict() == {
        "patient00001/study1": 1, "patient00002/study1": -1,
    }  # fmt: skip
    assert sum(drop.count for drop in tables.dropped["labels"]) == 2
    (root / "impression_fixed.json").write_text('{"path_to_image": "x"}\n')
    with pytest.raises(InputError, match="impression_fixed.json: field 'No Finding' is missing"):
        chexpert_plus.read(root, Request(labels=True))


def test_reports_by_section_or_cut_from_the_text(tmp_path: Path) -> None:
    whole = {"section_findings": "Clear.", "section_impression": "Normal."}
    rows = [
        row(1, 1, **whole),
        row(1, 1, "view2_lateral", section_findings="Of another image."),
        row(2, 1, section_findings="\\n"),
        row(3, 1, section_findings="1. No effusion.", section_impression=None),
        row(4, 1, section_impression=None, report=" "),
    ]
    reports = {one.study_id: one for one in read_texts("chexpert_plus", written(tmp_path, *rows))}
    published = {"findings": "Clear.", "impression": "Normal."}
    assert reports["patient00001/study1"].sections == published
    for name in ("patient00002/study1", "patient00003/study1"):
        assert reports[name].text == "IMPRESSION:\n1. No effusion."
    assert reports["patient00004/study1"].failure == "no text"
    merged = "NARRATIVE:\nCHEST\nFINDINGS/IMPRESSION:\nClear.\nACCESSION NUMBER: 77"
    assert reported(merged) == "FINDINGS/IMPRESSION:\nClear."
    assert reported("NARRATIVE: Clear lungs.") == "Clear lungs."


def test_archives_that_are_not_unpacked_are_one_clear_error(tmp_path: Path) -> None:
    root = written(tmp_path, row(1, 1))
    (root / "PNG/train").rename(root / "PNG/elsewhere")
    (root / "PNG/png_chexpert_plus_chunk_0.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"is not unpacked; .*unzip -q 'PNG/\*.zip'"):
        chexpert_plus.read(root, Request())
    assert len(chexpert_plus.read(root, Request(headers=False)).images) == 1


def test_the_copy_is_of_the_people_of_chexpert(tmp_path: Path) -> None:
    for name in ("chexpert", "chexpert_plus"):
        assert writer(name)(SETTINGS, tmp_path / name, 1)
    root = tmp_path / "chexpert_plus"
    tables = chexpert_plus.read(root, Request(labels=True))
    assert tables.images["failure"].value_counts().to_dict() == {"file not found": 1}
    assert len(tables.labels) > 0.9 * len(tables.studies)
    audit([str(tmp_path / "chexpert"), str(root), "--output", str(tmp_path / "audit")])
    account = json.loads((tmp_path / "audit/audit.json").read_text())
    found = {one["what"]: one["count"] for one in account["findings"] if len(one["sets"]) == 2}
    people = set(tables.studies["subject_id"])
    assert found["patients with equal ids"] == len(people)
    assert found["images that are there as a copy"] >= len(tables.images) - 1
    build_corpus("chexpert_plus", str(root), tmp_path / "corpus", ReportSettings())
    sections = pd.read_parquet(tmp_path / "corpus/sections.parquet")
    assert not sections["impression"].fillna("").str.contains("ABNORMAL|Dr.").any()
    assert not sections["findings"].fillna("").str.contains("EXAMINATION").any()
    held = f"chexpert/valid,test={tmp_path / 'chexpert'}"
    options = ["--layout", "chexpert_plus", "--root", root, "--corpus", tmp_path / "corpus"]
    flow = make(tmp_path / "out", *options, "--held-out", held)
    assert flow["held_out"][0]["patients_here"] > 0
    assert tables.splits is not None
    valid = tables.splits.loc[tables.splits["split"] == "valid", "subject_id"]
    rows = pd.read_parquet(tmp_path / "out/pairs.parquet")
    assert set(rows.loc[rows["subject_id"].isin(valid), "split"]) == {"test"}
    assert rows["prior_image_id"].notna().any() and len(rows) > 10
