"""PadChest-GR: boxes in shares become pixels of the files; what is no sample is counted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import metrics_of
from cohort_fixtures import make
from data_fixtures import write_csv
from phantom_fixtures import SETTINGS
from PIL import Image

from command_options import options
from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.data.readers import padchest_gr
from cxrflow.data.readers.common_tables import Request
from cxrflow.images.store_pixels import main as store_pixels

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
        "sentence_en is blank": (1, True),
        "box is not in shares of the image from 0 to 1": (1, True),
    }


def test_a_second_reader_s_boxes_are_a_row_of_their_own(tmp_path: Path) -> None:
    box = [0.1, 0.2, 0.3, 0.4]
    twice = {"extra_boxes": [[0.2, 0.2, 0.4, 0.4]], "sentence_es": "Un nódulo."}
    beyond = {"extra_boxes": [[0.2, 0.2, 1.4, 0.4]], "sentence_es": "Lejos."}
    findings = [
        sentence("A nodule.", [box], "nodule") | twice,
        sentence("Read once.", [box], "nodule") | {"sentence_es": "Una vez."},
        sentence("Beyond.", [box], "nodule") | beyond,
    ]
    root = written(tmp_path / "root", findings)
    few = {"kind": "grounding", "max_failed_share": 0.5}
    make(tmp_path / "out", "--layout", "padchest_gr", "--root", root, **few)
    rows = pd.read_parquet(tmp_path / "out/samples.parquet").set_index("phrase")
    assert [list(b) for b in rows.loc["A nodule.", "second_boxes"]] == [[40, 20, 40, 20]]
    assert rows["second_boxes"].isna().tolist() == [False, True, True]
    (drop,) = padchest_gr.read(root, Request()).dropped["boxes"]
    assert drop.reason == "second reader: box is not in shares of the image from 0 to 1"
    pixels = {"root": root, "images": tmp_path / "out/images.parquet"}
    store_pixels(options(**pixels, geometry="shorter64", output=tmp_path / "pixels"))
    scored = {"cohort": tmp_path / "out", "pixels": tmp_path / "pixels"}
    asked = {"categories": ["Nodule"], "intervals": {"replicates": 100}}

    def evaluated(row: str) -> dict[str, Any]:
        words = ("phrase_grounding", "--reference", row)
        return metrics_of(evaluate, *words, output=tmp_path / row, **scored, settings=asked)

    human, oracle = (evaluated(row) for row in ("second_reader", "oracle"))
    assert human["protocol"]["read_twice"] == human["metrics"]["miou"]["n"] == 1
    assert 0.1 < human["metrics"]["miou"]["value"] < oracle["metrics"]["miou"]["value"]
    spanish = padchest_gr.read_spanish(root, Request()).boxes["phrase"]
    assert set(spanish) == {"Un nódulo.", "Una vez.", "Lejos."}
    once = written(tmp_path / "once", [sentence("Read once.", [box], "nodule")])
    make(tmp_path / "out", "--layout", "padchest_gr", "--root", once, kind="grounding")
    with pytest.raises(InputError, match="column 'second_boxes' is missing"):
        evaluated("second_reader")


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
    assert 0 < rows["second_boxes"].notna().mean() < 1
    assert rows["prior_image_id"].notna().any() and rows["category"].nunique() > 3
    inside = [
        x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for boxes, width, height in rows[["boxes", "image_width", "image_height"]].to_numpy()
        for x, y, w, h in boxes
    ]
    assert all(inside)
