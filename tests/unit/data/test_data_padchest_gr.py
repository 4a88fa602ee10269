"""PadChest-GR: boxes in shares become pixels of the files; what is no sample is counted."""

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
from cxrflow.data.readers import padchest_gr
from cxrflow.data.readers.common_tables import Request

COLUMNS = ("StudyID", "PatientID", "label", "label_group", "split", "StudyDate_DICOM")
STUDY = "216840111366964012558082906712009300000000000000000001"


def sentence(text: str, boxes: list[Any], *labels: str) -> dict[str, Any]:
    return {"sentence_en": text, "boxes": boxes, "labels": list(labels)}


def written(root: Path, findings: list[Any], prior: tuple[str, str] | None = None) -> Path:
    """One study with an image of 200 x 100 pixels; its prior has 100 x 100."""
    (root / "images ").mkdir(parents=True)
    report = {"StudyID": STUDY, "ImageID": "a.png", "findings": findings}
    report |= {"PreviousStudyID": prior and prior[0], "PreviousImageID": prior and prior[1]}
    (root / "grounded_reports_20240819.json").write_text(json.dumps([report]), encoding="utf-8")
    rows = [(STUDY, "p1", "nodule", "Nodule", "test", "20150301")]
    write_csv(root / "master_table.csv", COLUMNS, rows)
    for name, width in (("a.png", 200), ("b.png", 100)):
        values = np.arange(100 * width, dtype=np.uint16).reshape(100, width)
        Image.fromarray(values).save(root / "images " / name)
    return root


def test_boxes_are_pixels_of_the_file(tmp_path: Path) -> None:
    findings = [
        sentence(" A  nodule. ", [[0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 1.0, 1.0]], " nodule "),
        sentence("A nodule.", [[0.1, 0.2, 0.3, 0.4]], "nodule"),
        sentence("No effusion.", []),
        sentence("Odd.", [[0.1, 0.2, 0.3]], "nodule"),
        sentence("Beyond.", [[0.1, 0.2, 0.3, 1.4]], "nodule"),
        sentence("Unnamed.", [[0.1, 0.2, 0.3, 0.4]]),
        sentence("", [[0.1, 0.2, 0.3, 0.4]], "nodule"),
    ]
    tables = padchest_gr.read(written(tmp_path, findings), Request())
    assert set(tables.boxes["phrase"]) == {"A nodule."}
    assert set(tables.boxes["category"]) == {"Nodule"}
    boxes = tables.boxes[[*"xywh"]].round(6).drop_duplicates().to_numpy().tolist()
    assert boxes == [[20, 20, 40, 20], [100, 50, 100, 50]]
    assert tables.images["image_path"].tolist() == ["images /a.png"]
    assert tables.images[["image_width", "image_height"]].to_numpy().tolist() == [[200, 100]]
    assert tables.studies["study_id"].tolist() == [STUDY]
    drops = {
        drop.reason.rpartition(": ")[2]: (drop.count, drop.failed)
        for drop in tables.dropped["boxes"]
    }
    assert drops == {
        "sentence without a box": (1, False),
        "box is not four numbers": (1, True),
        "sentence with boxes has no label": (1, True),
        "sentence has no English text": (1, True),
        "box is not in shares of the image from 0 to 1": (1, True),
    }


def test_a_prior_without_a_date_comes_right_before(tmp_path: Path) -> None:
    findings = [sentence("A nodule.", [[0.1, 0.2, 0.3, 0.4]], "nodule")]
    root = written(tmp_path, findings, ("9", "b.png"))
    tables = padchest_gr.read(root, Request())
    order = tables.studies.set_index("study_id")["order"]
    assert order["9"] < order[STUDY] and set(tables.studies["subject_id"]) == {"p1"}
    make(tmp_path / "out", "--layout", "padchest_gr", "--root", root, kind="grounding", priors=True)
    (row,) = pd.read_parquet(tmp_path / "out/samples.parquet").to_dict("records")
    assert (row["image_path"], row["prior_image_path"]) == ("images /a.png", "images /b.png")
    assert [list(box) for box in row["boxes"]] == [[20, 20, 40, 20]]


def test_damage_is_one_clear_error(tmp_path: Path) -> None:
    root = written(tmp_path / "r", [sentence("A nodule.", [[0.1, 0.2, 0.3, 0.4]], "nodule")])
    (root / "images /a.png").unlink()
    tables = padchest_gr.read(root, Request())
    assert tables.images["failure"].tolist() == ["file not found"] and tables.boxes.empty
    assert [(drop.reason, drop.count) for drop in tables.dropped["boxes"]] == [
        ("file not found", 1)
    ]
    (root / "images /b.png").unlink()
    (root / "PadChest_GR.zip.001").write_bytes(b"PK")
    with pytest.raises(
        InputError, match=r"piece of an archive; .* `cat PadChest_GR.zip.0\* > PadCh"
    ):
        padchest_gr.read(root, Request())
    path = root / "grounded_reports_20240819.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="is no JSON list"):
        padchest_gr.read(root, Request())
    path.write_text('[{"StudyID": "1"')
    with pytest.raises(InputError, match="grounded_reports_20240819.json"):
        padchest_gr.read(root, Request())


def test_the_copy_is_grounded_on_images_of_padchest(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"padchest_patients": 60})
    root = tmp_path / "gr"
    assert writer("padchest_gr")(settings, root, 1)
    flow = make(
        tmp_path / "out", "--layout", "padchest_gr", "--root", root, kind="grounding", priors=True
    )
    rows = pd.read_parquet(tmp_path / "out/samples.parquet")
    assert len(rows) > 15 and flow["synthetic"] and set(rows["split"]) == {"test"}
    assert rows["prior_image_id"].notna().any() and rows["category"].nunique() > 3
    inside = [
        x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for boxes, width, height in rows[["boxes", "image_width", "image_height"]].to_numpy()
        for x, y, w, h in boxes
    ]
    assert all(inside)
