"""Cohorts of samples on tiny data sets: boxes with their phrases, labelled images."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cohort_fixtures import cohort, make, step
from data_fixtures import (
    IMAGES,
    Image,
    mimic_cxr,
    ms_cxr,
    nih_mapping,
    open_i_report,
    rsna,
)

from cxr_files.errors import InputError
from cxrflow.data.cohorts.settings import CohortSettings, SplitSettings
from cxrflow.data.cohorts.splits import patient_shares
from cxrflow.data.protocols import protocol


def grounding(tmp_path: Path, **settings: object) -> dict[str, Any]:
    root = mimic_cxr(tmp_path / "mimic")
    rows = [
        (IMAGES[0], "Pneumonia", "patch at the base", (1, 2, 3, 4), "test"),
        (IMAGES[0], "Pneumonia", "patch at the base", (5, 6, 2, 2), "test"),
        (IMAGES[0], "Edema", "patch at the base", (0, 0, 10, 12), "test"),
        (IMAGES[3], "Edema", "haze", (8, 8, 4, 4), "test"),
    ]
    ms = ms_cxr(tmp_path / "ms", rows)
    options = ["--layout", "ms_cxr", "--root", ms]
    options += ["--images-layout", "mimic_cxr", "--images-root", root]
    return make(tmp_path / "out", *options, kind="grounding", **settings)


def test_grounding_unites_boxes_and_finds_the_dicom(tmp_path: Path) -> None:
    flow = grounding(tmp_path)
    samples = pd.read_parquet(tmp_path / "out/samples.parquet")
    assert [[box.tolist() for box in boxes] for boxes in samples["boxes"]] == [
        *([[1, 2, 3, 4], [5, 6, 2, 2]], [[0, 0, 10, 12]], [[8, 8, 4, 4]])
    ]
    assert samples["sample_id"].is_unique and set(samples["split"]) == {"test"}
    assert samples["image_path"][0] == IMAGES[0].path("dcm") and samples["view"][0] == "PA"
    assert samples.loc[0, ["image_width", "image_height"]].tolist() == [10, 12]
    assert len(pd.read_parquet(tmp_path / "out/images.parquet")) == 2
    assert flow["categories"] == {"Edema": 2, "Pneumonia": 1}
    assert any("1 samples have a box that reaches out" in note for note in flow["notes"])


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        ((-9, 2, 4, 4), "box outside the image"),
        ((1, 30, 4, 4), "box outside the image"),
        ((7, 9, 90, 90), "box outside the image"),
        (("inf", 2, 4, 4), "box is not finite, or larger than any image"),
        ((1, 2, 0.3, 4), "box without area"),
    ],
)
def test_a_phrase_with_an_impossible_box_is_no_sample(tmp_path, box, reason):
    """Its other boxes would be a region that lacks something."""
    good = (1, 1, 4, 4)
    rows = [
        (IMAGES[0], "Edema", "haze", good, "test"),
        (IMAGES[0], "Edema", "fluid", good, "test"),
        (IMAGES[0], "Edema", "fluid", box, "test"),
    ]
    options = ["--layout", "ms_cxr", "--root", ms_cxr(tmp_path / "ms", rows)]
    options += ["--images-layout", "mimic_cxr", "--images-root", mimic_cxr(tmp_path / "mimic")]
    flow, samples = cohort(tmp_path / "out", *options, kind="grounding", max_failed_share=0.9)
    assert samples["phrase"].tolist() == ["haze"]
    assert {drop["reason"]: drop["count"] for drop in flow["steps"][0]["dropped"]} == {
        reason: 1,
        "another box of its region is impossible": 1,
    }


def test_grounding_with_the_images_before(tmp_path: Path) -> None:
    """The prior may be an image that no phrase is about; a prior that is damaged is none."""
    asked = {"priors": True, "choose": "preferred", "views": ["AP", "PA"]}
    flow = grounding(tmp_path, **asked)
    samples = pd.read_parquet(tmp_path / "out/samples.parquet").set_index("sample_id")
    later = samples[samples["image_id"] == IMAGES[3].id]
    assert later["prior_image_id"].tolist() == [IMAGES[1].id]
    assert samples["prior_image_id"].notna().sum() == 1
    images = pd.read_parquet(tmp_path / "out/images.parquet").set_index("image_id")
    assert set(images.index) == {IMAGES[0].id, IMAGES[1].id, IMAGES[3].id}
    assert images.loc[IMAGES[1].id, "image_path"] == IMAGES[1].path("dcm")
    assert flow["priors"]["found"] == 1 and flow["settings"]["priors"] is True
    without = grounding(tmp_path / "without")
    assert "priors" not in without["settings"] and "priors" not in without
    with pytest.raises(ValueError, match="priors of a cohort of kind nli: expected false"):
        CohortSettings(kind="nli", priors=True)
    with pytest.raises(ValueError, match="kind grounding without priors: expected its default"):
        CohortSettings.model_validate({"kind": "grounding", **asked, "priors": False})


def test_grounding_counts_images_that_cannot_be_used(tmp_path: Path) -> None:
    grounding(tmp_path)
    path = tmp_path / "mimic" / IMAGES[3].path()
    path.unlink()
    options = [
        *("--layout", "ms_cxr", "--root", tmp_path / "ms"),
        *("--images-layout", "mimic_cxr", "--images-root", tmp_path / "mimic"),
    ]
    flow = make(tmp_path / "out", *options, kind="grounding", max_failed_share=0.5)
    assert step(flow, "image file usable", "samples") == (2, {"file not found": 1})
    table = tmp_path / "ms/MS_CXR_Local_Alignment_v1.1.0.csv"
    table.write_text(table.read_text().replace(",10,12,test", ",20,24,test"))
    with pytest.raises(InputError, match="size differs from the file's"):
        make(tmp_path / "out", *options, kind="grounding", max_failed_share=0.5)


def test_grounding_split_does_not_move_when_a_file_is_missing(tmp_path: Path) -> None:
    images = [Image(f"100000{n}", f"500000{n}", n) for n in range(10, 30)]
    rows = [(image, "Edema", "haze", (1, 1, 4, 4), "test") for image in images]
    root = mimic_cxr(tmp_path / "mimic", images)
    options = ["--layout", "ms_cxr", "--root", ms_cxr(tmp_path / "ms", rows)]
    options += ["--images-layout", "mimic_cxr", "--images-root", root]
    shares = {"train": 0.4, "validate": 0.3, "test": 0.3}
    splits = {"method": "patients", "shares": shares}
    asked = {"kind": "grounding", "index": "sample_id", "splits": splits, "max_failed_share": 0.5}
    whole = cohort(tmp_path / "whole", *options, **asked)[1]["split"]
    for image in images[:5]:
        (root / image.path()).unlink()
    part = cohort(tmp_path / "part", *options, **asked)[1]["split"]
    assert len(part) == 15 and (part == whole[part.index]).all()


def test_classification_follows_the_ordered_split(tmp_path: Path) -> None:
    root = rsna(tmp_path / "rsna", negatives=12, positives=8)
    options = ["--layout", "rsna", "--root", root]
    flow, samples = cohort(tmp_path / "out", *options, kind="classification")
    assert flow["classes"] == ["Pneumonia"] and flow["labels"]["test/Pneumonia/0"] == 3
    label = samples["labels"].str[0]
    assert len(samples) == 20 and label.sum() == 8
    assert (samples["group_id"] == samples["image_id"]).all()
    assert (samples["split"] == "test").sum() == 6
    positive = samples[label == 1].iloc[0]
    assert [box.tolist() for box in positive["boxes"]] == [[1, 2, 3, 4], [5, 6, 2, 2]]
    assert len(samples[label == 0].iloc[0]["boxes"]) == 0
    assert positive["subgroup"] == "Lung Opacity" and positive["image_width"] == 10
    assert any("patients are not known" in note for note in flow["notes"])


def test_the_ordered_split_s_test_part_alone_needs_no_other_file(tmp_path: Path) -> None:
    """As RSNA's zero-shot protocol scores it: nothing else is decoded, or counted as missing."""
    root = rsna(tmp_path / "rsna", negatives=12, positives=8)
    nih_mapping(root, images=4)
    options, asked = ["--layout", "rsna", "--root", root], protocol("rsna").cohort
    whole_splits = {name: value for name, value in asked["splits"].items() if name != "parts"}
    kind = {"kind": "classification", "index": "sample_id"}
    whole = cohort(tmp_path / "whole", *options, **kind, splits=whole_splits)[1]
    tested = whole.index[whole["split"] == "test"]
    for name in whole.index.difference(tested):
        (root / "stage_2_train_images" / f"{name}.dcm").unlink()
    flow, alone = cohort(tmp_path / "alone", *options, **kind, **asked)
    assert sorted(alone.index) == sorted(tested) and set(alone["split"]) == {"test"}
    assert step(flow, "split known", "images") == (3, {"not in the given split": 17})
    assert step(flow, "image usable", "images") == (3, {})
    assert [check["name"] for check in flow["checks"]] == ["image in one split"]
    assert len(pd.read_parquet(tmp_path / "alone/images.parquet")) == 3
    wrong = {**asked["splits"], "parts": {"valid": "test"}}
    with pytest.raises(InputError, match=r"names 'valid'; the split has test, train, validate"):
        make(tmp_path / "wrong", *options, kind="classification", splits=wrong)


def test_classification_split_does_not_move_when_a_file_is_missing(tmp_path: Path) -> None:
    root = rsna(tmp_path / "rsna", negatives=12, positives=8)
    options = ["--layout", "rsna", "--root", root]
    asked = {"kind": "classification", "index": "sample_id", "max_failed_share": 0.1}
    whole = cohort(tmp_path / "whole", *options, **asked)[1]["split"]
    next((root / "stage_2_train_images").iterdir()).unlink()
    part = cohort(tmp_path / "part", *options, **asked)[1]["split"]
    assert len(part) == 19 and (part == whole[part.index]).all()


def test_classification_holds_patients_out(tmp_path: Path) -> None:
    """Ten patients of four images; the other set's two patients are in no training part."""
    for name, count in (("own", 40), ("other", 8)):
        root = rsna(tmp_path / name, negatives=count // 2, positives=count // 2)
        nih_mapping(root, images=4)
    options = ["--layout", "rsna", "--root", root.parent / "own"]
    options += ["--held-out", f"other:rsna={root}"]
    flow, samples = cohort(tmp_path / "out", *options, kind="classification")
    held = samples["subject_id"].isin(["00000000", "00000001"])
    assert held.sum() == 8 and samples.loc[held, "split"].eq("test").all()
    assert (samples.loc[~held, "split"] == "train").any()
    assert flow["checks"][-1] == {
        "name": "held-out patients not trained on",
        "passed": True,
        "detail": "no patient of other (2) in train or validate",
    }


def test_classification_reports_the_published_leak_and_can_avoid_it(tmp_path: Path) -> None:
    root = rsna(tmp_path / "rsna", negatives=30, positives=10)
    nih_mapping(root, images=4)
    options = ["--layout", "rsna", "--root", root]
    leaky = make(tmp_path / "a", *options, kind="classification")
    assert [check["passed"] for check in leaky["checks"]] == [True, False]
    shares = {"train": 0.5, "validate": 0.2, "test": 0.3}
    splits = {"method": "patients", "shares": shares}
    clean = make(tmp_path / "b", *options, kind="classification", splits=splits)
    assert [check["passed"] for check in clean["checks"]] == [True, True]
    assert clean["splits"]["test"]["patients"] == 3


def test_open_i_is_labelled_by_its_index_terms(tmp_path: Path) -> None:
    """One frontal image of each report with terms, in the part that its pair is in."""
    root = tmp_path / "open_i"
    (root / "ecgen-radiology").mkdir(parents=True)
    (root / "images").mkdir()
    lines = ["uid,filename,projection"]
    for number in range(1, 31):
        names = [f"CXR{number}_IM-0001-{kind}001" for kind in (1, 2, 3)]
        terms = "<major>Cardiomegaly/mild</major>" if number % 3 else "<major>normal</major>"
        report = open_i_report(number, "Clear.", "Normal.", names)
        if number % 5:
            report = report.replace("</MedlineCitation>", f"</MedlineCitation>{terms}")
        (root / f"ecgen-radiology/{number}.xml").write_text(report)
        for name, view in zip(names, ("Frontal", "Frontal", "Lateral"), strict=True):
            file = f"{name.removeprefix('CXR')}.dcm.png"
            (root / "images" / file).write_bytes(b"a picture")
            lines.append(f"{number},{file},{view}")
    (root / "indiana_projections.csv").write_text("\n".join(lines) + "\n")
    shares = {"train": 0.6, "validate": 0.1, "test": 0.3}
    flow = make(
        *(tmp_path / "out", "--layout", "open_i", "--root", root),
        kind="classification",
        frontal=True,
        splits={"method": "patients", "shares": shares},
    )
    samples = pd.read_parquet(tmp_path / "out/samples.parquet").set_index("group_id")
    assert len(samples) == 24 and samples["view"].eq("FRONTAL").all()
    assert step(flow, "frontal view", "images") == (60, {"view LATERAL": 30})
    assert step(flow, "one image a study", "images")[0] == 30
    place = flow["classes"].index("Cardiomegaly")
    for study, row in samples.iterrows():
        assert row["labels"][place] == (int(study.removeprefix("CXR")) % 3 > 0)
    listed = pd.Series([f"CXR{number}" for number in range(1, 31)])
    split = patient_shares(listed, SplitSettings(shares=shares))
    assert samples["split"].equals(split.reindex(samples.index).rename("split"))
