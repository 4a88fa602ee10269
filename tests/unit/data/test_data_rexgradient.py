"""ReXGradient's lists of studies: parts, views in many words, damage, and its synthetic copy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import make
from phantom_fixtures import SETTINGS
from PIL import Image

from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxr_labels.settings import ReportSettings
from cxrflow.data.layouts import layout
from cxrflow.data.readers import rexgradient
from cxrflow.data.readers.common_tables import Request
from cxrflow.images.decode import decode
from cxrflow.reports.corpus import build_corpus
from cxrflow.reports.texts import list_reports, read_texts


def entry(patient: int, study: int, views: list[str], **changes: Any) -> dict[str, Any]:
    uid = f"1.2.{patient}.{study}"
    paths = [f"../deid_png/P{patient}/A{study}/studies/{uid}/instances/{uid}.{n}.png"
             for n in range(len(views))]  # fmt: skip
    return {
        "PatientID": f"P{patient}",
        "StudyInstanceUid": uid,
        "StudyDate": f"2020010{study}",
        "Findings": "The lungs are clear.",
        "Impression": "No acute process.",
        "ImagePath": paths,
        "ImageViewPosition": views,
        **changes,
    }


def written(root: Path, part: str, *entries: Any, suffix: str = "_view_position") -> Path:
    (root / "metadata").mkdir(parents=True, exist_ok=True)
    content = {f"study {number}": one for number, one in enumerate(entries)}
    path = root / f"metadata/{part}_metadata{suffix}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    for one in entries:
        places = one.get("ImagePath") if isinstance(one, dict) else None
        for place in places if isinstance(places, list) else []:
            file = root / "metadata" / str(place)
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.arange(400, dtype=np.uint16).reshape(20, 20)).save(file)
    return root


def test_studies_of_all_parts_with_their_images(tmp_path: Path) -> None:
    written(tmp_path, "train", entry(1, 1, ["PA", "LAT"]), entry(1, 2, ["ANTERO_POSTERIOR"]))
    written(tmp_path, "test", entry(2, 1, ["unknown", "N/A"]))
    tables = rexgradient.read(tmp_path, Request())
    assert tables.images["view"].fillna("").tolist() == ["PA", "LATERAL", "AP", "", ""]
    assert tables.images["failure"].isna().all()
    place = "deid_png/P1/A1/studies/1.2.1.1/instances/1.2.1.1.0.png"
    assert tables.images["image_path"][0] == place
    assert tables.splits is not None
    assert dict(tables.splits.to_numpy()) == {"P1": "train", "P2": "test"}
    assert tables.studies["study_time"][0] == "2020-01-01T00:00:00.000"
    assert tables.studies["order"][0] < tables.studies["order"][1]
    assert tables.notes == [rexgradient.DATES, "2 of 5 images have no view in the lists"]


def test_what_is_no_study_is_counted(tmp_path: Path) -> None:
    whole = entry(1, 1, ["PA"])
    damaged = [
        [],
        {**entry(2, 1, []), "PatientID": None},
        {**entry(3, 1, ["PA"]), "ImagePath": "one.png"},
        entry(4, 1, ["PA", "AP"], ImageViewPosition=["PA"]),
    ]
    written(tmp_path, "train", whole, *damaged)
    tables = rexgradient.read(tmp_path, Request())
    assert tables.studies["study_id"].tolist() == ["1.2.1.1"]
    listing = list_reports("rexgradient", tmp_path)
    assert [(drop.count, drop.failed) for drop in listing.dropped] == [(1, True)]
    name = "train_metadata_view_position.json"
    assert {drop.reason: drop.count for drop in tables.dropped["studies"]} == {
        f"{name}: the study is no object": 1,
        f"{name}: PatientID is missing": 1,
        f"{name}: ImagePath is no list of paths": 1,
        f"{name}: ImageViewPosition is no list as long as ImagePath": 1,
    }


def test_a_list_without_views_has_none(tmp_path: Path) -> None:
    one = entry(1, 1, ["PA"])
    del one["ImageViewPosition"]
    written(tmp_path, "valid", one, suffix="")
    tables = rexgradient.read(tmp_path, Request(headers=False))
    assert tables.images["view"].isna().all()
    (report,) = read_texts("rexgradient", tmp_path)
    assert report.sections == {
        "findings": "The lungs are clear.", "impression": "No acute process.",
    }  # fmt: skip


def test_what_is_not_unpacked_or_cut_off_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"metadata/train_metadata_view_position.json or .* not f"):
        rexgradient.read(tmp_path, Request())
    root = tmp_path / "packed"
    written(root, "train", entry(1, 1, []))
    (root / "deid_png.part00").write_bytes(b"zstd")
    with pytest.raises(InputError, match=r"not unpacked; .* type `cat deid_png.part\* \| tar --zs"):
        rexgradient.read(root, Request())
    path = root / "metadata/train_metadata_view_position.json"
    path.write_text(path.read_text()[:60])
    with pytest.raises(InputError, match="train_metadata_view_position.json: "):
        rexgradient.read(root, Request(headers=False))


def test_the_copy_has_the_traps_of_the_published_set(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 160})
    root = tmp_path / "rexgradient"
    assert writer("rexgradient")(settings, root, 1)
    tables = rexgradient.read(root, Request())
    assert tables.images["failure"].isna().all()
    assert tables.splits is not None
    assert set(tables.splits["split"]) == {"train", "valid", "test"}
    assert tables.splits["subject_id"].is_unique
    assert {"AP", "PA", "LATERAL"} <= set(tables.images["view"].dropna())
    assert 0.02 < tables.images["view"].isna().mean() < 0.4
    sizes = tables.images.groupby("study_id").size()
    assert sizes.max() > 1
    decoded = decode(root / tables.images["image_path"][0])
    assert decoded.photometric == "I;16" and decoded.values.max() < 2**14
    build_corpus("rexgradient", str(root), tmp_path / "corpus", ReportSettings())
    sections = pd.read_parquet(tmp_path / "corpus/sections.parquet")
    assert sections["impression"].notna().mean() > 0.5
    options = ["--layout", "rexgradient", "--root", root, "--corpus", tmp_path / "corpus"]
    flow = make(tmp_path / "out", *options, splits={"method": "official"})
    rows = pd.read_parquet(tmp_path / "out/pairs.parquet")
    assert set(rows["view"]) <= {"AP", "PA"} and set(rows["split"]) <= {"train", "validate", "test"}
    assert rows["prior_image_id"].notna().any()
    assert flow["synthetic"] and flow["layout"] == "rexgradient"
    assert layout("rexgradient").people == {"rexgradient"}
