"""The synthetic MS-CXR has the published layout; its CSV, its COCO file and the images agree."""

import json
from pathlib import Path

import pandas as pd
import pydicom
from phantom_fixtures import SETTINGS

from cxrflow.phantom.__main__ import writer


def test_ms_cxr(written: Path) -> None:
    base = written / "ms_cxr"
    table = pd.read_csv(base / "MS_CXR_Local_Alignment_v1.1.0.csv")
    coco = json.loads((base / "MS_CXR_Local_Alignment_v1.1.0.json").read_text())
    assert list(table) == [
        *("dicom_id", "category_name", "label_text", "path", "x", "y", "w", "h"),
        *("image_width", "image_height", "split"),
    ]
    assert (table[["x", "y", "w", "h"]].to_numpy() >= 0).all() and (table.w > 0).all()
    assert (table.x + table.w <= table.image_width).all()
    assert (table.y + table.h <= table.image_height).all()
    assert table.path.str.endswith(".jpg").all()
    records = pd.read_csv(written / "mimic_cxr" / "cxr-record-list.csv.gz").set_index("dicom_id")
    for row in table.itertuples():
        dicom = pydicom.dcmread(
            written / "mimic_cxr" / str(records.path[row.dicom_id]), stop_before_pixels=True
        )
        assert (row.image_height, row.image_width) == (dicom.Rows, dicom.Columns)
        assert dicom.ViewPosition in ("AP", "PA")
    assert set(coco) == {"images", "annotations", "categories"}
    assert len(coco["annotations"]) == len(table)
    images = {image["id"]: image for image in coco["images"]}
    names = {category["id"]: category["name"] for category in coco["categories"]}
    assert len(names) == 8
    from_coco = {
        (
            Path(images[a["image_id"]]["file_name"]).stem,
            names[a["category_id"]],
            a["label_text"],
            *a["bbox"],
        )
        for a in coco["annotations"]
    }
    columns = ["dicom_id", "category_name", "label_text", "x", "y", "w", "h"]
    assert from_coco == set(table[columns].itertuples(index=False, name=None))


def test_ms_cxr_has_two_boxes_and_repeated_images(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 60, "ms_cxr_patient_share": 1.0})
    writer("ms_cxr")(settings, tmp_path, 1)
    table = pd.read_csv(tmp_path / "MS_CXR_Local_Alignment_v1.1.0.csv")
    assert table.groupby(["dicom_id", "category_name", "label_text"]).size().max() == 2
    coco = json.loads((tmp_path / "MS_CXR_Local_Alignment_v1.1.0.json").read_text())
    stems = [image["file_name"] for image in coco["images"]]
    assert len(set(stems)) < len(stems)
    assert table.category_name.nunique() == 8
    phrases = table.drop_duplicates(["dicom_id", "category_name"]).category_name.value_counts()
    assert phrases.max() <= max(5, 1.25 * phrases.median())
