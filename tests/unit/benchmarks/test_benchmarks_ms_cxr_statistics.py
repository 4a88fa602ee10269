"""Table C.1 on files small enough to count by hand."""

import json
import math
import statistics
from pathlib import Path

import pandas as pd
import pytest
from benchmark_fakes import metrics_of
from data_fixtures import write_csv

from cxr_files.errors import InputError
from cxrflow.benchmarks.data import ms_cxr_statistics as program
from cxrflow.benchmarks.data.box_positions import union_maps
from cxrflow.benchmarks.data.settings import MsCxrStatisticsSettings
from cxrflow.benchmarks.evaluate import main
from cxrflow.data.readers.common_tables import Tables, shaped

BOXES = (
    # image, category, phrase, patient, study
    ("a", "Edema", "Mild edema.", "10000001", "50000001"),
    ("a", "Edema", "Mild edema.", "10000001", "50000001"),  # a second box of the phrase
    ("a", "Pneumonia", "Right-sided pneumonia, small", "10000001", "50000001"),
    ("b", "Edema", "Edema", "10000001", "50000002"),
    ("c", "Edema", "No change of edema", "10000002", "50000003"),
    ("d", "Edema", "Edema again.", "10000003", "50000004"),  # unknown to MIMIC-IV
)
STUDIES = (("50000001", "10000001", 2130), ("50000002", "10000001", 2127),
           ("50000003", "10000002", 2150), ("50000004", "10000003", 2140),
           ("50000005", "10000004", 2160))  # fmt: skip
PATIENTS = (("10000001", "F", 60, 2125), ("10000002", "M", 41, 2151), ("10000004", "F", 91, 2160),
            ("10000009", "M", 50, 2110))  # fmt: skip


@pytest.fixture
def roots(tmp_path):
    """MS-CXR, MIMIC-CXR-JPG and MIMIC-IV with the rows above."""
    rows = [
        (image, category, phrase, f"files/p10/p{patient}/s{study}/{image}.jpg", n, 1, 5, 5, 50, 60)
        for n, (image, category, phrase, patient, study) in enumerate(BOXES)
    ]
    columns = ["dicom_id", "category_name", "label_text", "path", *"xywh", "image_width"]
    file = tmp_path / "ms" / "MS_CXR_Local_Alignment_v1.0.0.csv"
    write_csv(file, [*columns, "image_height"], rows)
    columns = ["dicom_id", "subject_id", "study_id", "ViewPosition", "Rows", "Columns"]
    write_csv(
        tmp_path / "jpg" / "mimic-cxr-2.0.0-metadata.csv",
        [*columns, "StudyDate", "StudyTime"],
        [(f"i{n}", p, s, "PA", 9, 9, f"{y}0203", "0.0") for n, (s, p, y) in enumerate(STUDIES)],
    )
    columns = ["subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod"]
    patients = [(*row, "2011 - 2013", "") for row in PATIENTS]
    write_csv(tmp_path / "iv" / "hosp" / "patients.csv", columns, patients)
    return tmp_path


def run(roots, demographics=None, **settings):
    read = {"dataset": "ms_cxr", "root": roots / "ms", "studies_layout": "mimic_cxr_jpg"}
    read |= {"studies_root": roots / "jpg", "settings": settings}
    folder = None if demographics is None else roots / demographics
    output = roots / "out"
    found = metrics_of(main, "ms_cxr_statistics", **read, demographics=folder, output=output)
    return found, {name: entry["value"] for name, entry in found["metrics"].items()}


def test_counts_shares_and_ages(roots):
    found, values = run(roots, "iv")
    expected = {
        "pairs/edema": 4, "images/edema": 4, "subjects/edema": 3,
        "pairs/pneumonia": 1, "subjects/pneumonia": 1, "pairs/cardiomegaly": 0,
        "pairs/total": 5, "images/total": 4, "subjects/total": 3,
        "subjects/background": 4, "women/background": 2, "without_demographics/background": 1,
        "women/edema": 1, "women_percent/edema": 50, "without_demographics/edema": 1,
        # Patient 1 is 60 in 2125: 62 at the first study with edema, 65 at that with pneumonia.
        # Patient 2 is 41 in 2151, a year after the study.
        "age/edema": (62 + 40) / 2, "age_sd/edema": statistics.stdev([62, 40]),
        "age/pneumonia": 65, "age_sd/pneumonia": None, "age/cardiomegaly": None,
        "age/background": (62 + 40 + 91) / 3,
    }  # fmt: skip
    for name, value in expected.items():
        assert values[name] == (None if value is None else pytest.approx(value)), name
    assert values["women_percent/background"] == pytest.approx(100 * 2 / 3)
    assert not any(name.startswith(("pairs/back", "tokens/back")) for name in values)
    assert found["data"]["pairs_without_study_date"] == 0
    rows = pd.read_parquet(roots / "out" / "predictions.parquet")
    assert len(rows) == 5 and "phrase" not in rows and rows["boxes"].sum() == 6
    anchored = run(roots, "iv", age="anchor")[1]
    assert anchored["age/edema"] == pytest.approx((60 + 41) / 2)


def test_how_far_boxes_reach_and_where_they_lie(roots):
    """Boxes of 5 x 5 on 50 x 60, the two of one phrase at x = 0 and 1: beside each other."""
    values = run(roots)[1]
    expected = {
        "several_boxes/edema": 1 / 4, "several_boxes/pneumonia": 0, "several_boxes/total": 1 / 5,
        "several_phrases/total": 1 / 4,  # image a of a, b, c and d
    }  # fmt: skip
    for name, value in expected.items():
        assert values[name] == pytest.approx(value), name
    assert values["box_share/pneumonia"] == pytest.approx(25 / 3000, rel=0.3)  # to whole cells
    assert values["box_share_median/edema"] <= values["box_share/edema"]
    assert not any(name.startswith("box_share/card") for name in values)
    entries = json.loads((roots / "out" / "figures" / "examples.json").read_text())
    assert entries[0]["file"] == "box_positions.png"
    picture = (roots / "out" / "figures" / "box_positions.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    sides = {"x": [0, 50], "y": 0, "w": 50, "h": [50, 100]}
    named = {"image_id": "i", "category": "Edema", "phrase": "p"}
    boxes = shaped("boxes", named | sides, pd.RangeIndex(2))
    images = shaped("images", {"image_id": "i", "image_width": 100, "image_height": 100}, [0])
    (found,) = union_maps(Tables(Path("t"), images=images, boxes=boxes))["map"]
    assert found[:32, :32].all() and not found[32:, :32].any() and found[:, 32:].all()


def test_without_demographics_the_rest_is_counted(roots):
    found, values = run(roots)
    assert values["subjects/total"] == 3 and found["protocol"]["demographics"] == "none"
    assert not any(name.startswith(("women", "age")) for name in values)


@pytest.mark.parametrize(
    ("phrase", "settings", "count"),
    [
        ("Mild edema.", {}, 3),
        ("Mild edema", {}, 3),  # the full stop counts though it is not written
        ("Mild edema", {"full_stop": "as_written"}, 2),
        ("Right-sided pneumonia, small", {}, 5),  # words 3, comma, full stop
        ("Right-sided pneumonia, small", {"tokens": "words"}, 4),
        ("Right-sided pneumonia, small.", {"tokens": "words", "full_stop": "as_written"}, 4),
    ],
)
def test_the_length_of_a_phrase(phrase, settings, count):
    assert program.phrase_length(phrase, MsCxrStatisticsSettings(**settings)) == count


def test_damage_is_counted_and_limited(roots):
    path = roots / "iv" / "hosp" / "patients.csv"
    path.write_text(path.read_text() + "10000003,?,30,2140,2011 - 2013,\n10000005,F,300,2140,,\n")
    with pytest.raises(InputError, match=r"2 of 6 rows failed.*max_failed_share"):
        run(roots, "iv")
    found, _ = run(roots, "iv", max_failed_share=0.5)
    assert [(drop["reason"], drop["examples"]) for drop in found["data"]["dropped"]] == [
        ("patients.csv: gender is neither F nor M", ["10000003"]),
        ("patients.csv: anchor_age is not in 0 to 120", ["10000005"]),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("subject_id,gender,anchor_age\n1,F,3\n", "column 'anchor_year' is missing"),
        ("", "the file is empty"),
        (
            "subject_id,gender,anchor_age,anchor_year\n1,F,3,2100\n1,M,3,2100\n",
            "1 value.* of subject_id stand in several rows",
        ),
    ],
)
def test_a_damaged_table_of_patients_is_named(roots, text, message):
    (roots / "iv" / "hosp" / "patients.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        run(roots, "iv")


def test_a_missing_table_of_patients_is_named(roots):
    with pytest.raises(InputError, match="patients.csv not found"):
        run(roots, "ms")
    with pytest.raises(InputError, match="data root not found"):
        run(roots, "nowhere")


def test_a_study_without_a_date_has_no_age(roots):
    path = roots / "jpg" / "mimic-cxr-2.0.0-metadata.csv"
    path.write_text(path.read_text().replace("21500203", ""))
    found, values = run(roots, "iv")
    assert found["data"]["pairs_without_study_date"] == 1
    assert values["age/edema"] == 62 and values["women_percent/edema"] == 50
    assert math.isclose(values["subjects/edema"], 3)
