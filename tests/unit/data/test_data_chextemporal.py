"""CheXTemporal: five directions and several answers, of one parent data set or of both joined."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cohort_fixtures import cohort, dropped
from phantom_fixtures import SETTINGS
from test_data_chexpert_plus import row as image_row
from test_data_chexpert_plus import written as chexpert_plus

from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.rexgradient import patient_count, rexgradient_patient
from cxrflow.data.cohorts.held_out import held_out_patients, held_out_sets
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.progressions import chextemporal

GOLD, SILVER = "gold_progression_pairs.parquet", "silver_findings.parquet"


def gold(patient: int, finding: str, progression: str, **changes: Any) -> dict[str, Any]:
    name = f"patient{patient:05d}"
    return {
        "patient_id": name,
        "study_id_prev": "study1",
        "study_id_curr": "study2",
        "img_path_prev": f"{name}/study1/view1_frontal.jpg",
        "img_path_curr": f"{name}/study2/view1_frontal.jpg",
        "disease_name": finding,
        "progression": progression,
        "dataset": "chexpert",
        **changes,
    }


def silver(patient: int, finding: str, progression: str) -> dict[str, Any]:
    name = f"patient{patient:05d}"
    return {
        "dataset": "chexpert",
        "patient_id": name,
        "finding": finding,
        "progression": progression,
        "parent_image_curr": f"chexpert/train/{name}/study2/view1_frontal.jpg",
        "parent_image_prev": f"chexpert/train/{name}/study1/view1_frontal.jpg",
        "evidence": ["grown"],
    }


def written(root: Path, *rows: dict[str, Any], reports: tuple[dict[str, Any], ...] = ()) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([*rows]).to_parquet(root / GOLD)
    if reports:
        pd.DataFrame([*reports]).to_parquet(root / SILVER)
    return root


REX = {
    "dataset": "rexgradient",
    "patient_id": "GRDN1",
    "img_path_prev": "deid_png/GRDN1/A/studies/1.2/series/1.2.1/instances/1.2.1.1.png",
    "img_path_curr": "deid_png/GRDN1/B/studies/1.3/series/1.3.1/instances/1.3.1.1.png",
}
MIMIC = {
    "dataset": "mimic",
    "patient_id": "p10000001",
    "img_path_prev": "p10/p10000001/s50000001/1a-2b.jpg",
    "img_path_curr": "p10/p10000001/s50000002/3c-4d.jpg",
}


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """Patients 1 to 4 have two studies; radiologists have read those of patient 1."""
    rows = [image_row(patient, study) for patient in range(1, 6) for study in (1, 2)]
    chexpert_plus(tmp_path / "plus", *rows)
    written(
        tmp_path / "temporal",
        gold(1, "pleural effusion", "Worse"),
        gold(1, "pleural effusion", "Resolved"),
        gold(1, "lung opacity", "New"),
        gold(1, "lung opacity", "Worse"),
        gold(1, "edema", "Stable"),
        gold(7, "edema", "Stable", **REX),
        gold(8, "edema", "Stable", **MIMIC),
        reports=(
            silver(1, "Edema", "Worse"),
            silver(2, "Pleural Effusion", "New"),
            silver(3, "Edema", "Improved"),
            silver(4, "Pleural Effusion", "Stable"),
            silver(5, "Edema", "Stable"),
        ),
    )
    return tmp_path


def build(roots: Path, **settings: Any) -> tuple[dict[str, Any], pd.DataFrame]:
    options = ["--layout", "chextemporal_chexpert", "--root", roots / "temporal"]
    options += ["--images-layout", "chexpert_plus", "--images-root", roots / "plus"]
    shares = {"shares": {"train": 0.5, "validate": 0.5}}
    return cohort(roots / "out", *options, kind="progression", splits=shares, **settings)


def said(rows: pd.DataFrame) -> set[tuple[str, str, str]]:
    return set(rows[["subject_id", "finding", "label"]].itertuples(index=False, name=None))


def test_of_three_directions_what_is_new_has_got_worse(roots: Path) -> None:
    flow, rows = build(roots)
    tested, trained = rows[rows["split"] == "test"], rows[rows["split"] != "test"]
    assert said(tested) == {
        ("patient00001", "Lung Opacity", "worsening"),  # said as new and as worse
        ("patient00001", "Edema", "stable"),
    }
    assert said(trained) == {
        ("patient00002", "Pleural Effusion", "worsening"),
        ("patient00003", "Edema", "improving"),
        ("patient00004", "Pleural Effusion", "stable"),
        ("patient00005", "Edema", "stable"),
    }
    assert tested["quality"].eq("gold").all() and trained["quality"].eq("silver").all()
    assert tested["image_path"].iloc[0].startswith("PNG/train/patient00001/study2/")
    assert dropped(flow) == {
        f"{GOLD}: on images of mimic": 1,
        f"{GOLD}: on images of rexgradient": 1,
        "trained on no more: its patient is among the labels that are tested on": 1,
        "several directions of the finding": 2,
    }
    assert "2 labels are new: taken as worsening (Table F.3)" in flow["notes"]
    assert flow["classes"] == ["improving", "stable", "worsening"]


def test_of_five_directions_all_answers_stay(roots: Path) -> None:
    flow, rows = build(roots, directions="five")
    assert said(rows[rows["split"] == "test"]) == {
        ("patient00001", "Pleural Effusion", "worsening;resolved"),
        ("patient00001", "Lung Opacity", "worsening;new"),
        ("patient00001", "Edema", "stable"),
    }
    assert dropped(flow)["further direction, said in the finding's first row"] == 2
    assert flow["classes"] == ["improving", "stable", "worsening", "new", "resolved"]


def test_patients_of_gold_labels_are_held_out_of_pairs(roots: Path) -> None:
    """Those of silver labels are not: a third of the parent's patients has some."""
    sets = held_out_sets([f"chextemporal_chexpert={roots / 'temporal'}"])
    patients = {f"patient{number:05d}" for number in range(1, 6)}
    held_out, notes = held_out_patients(sets, "chexpert", patients)
    assert held_out == {"chextemporal_chexpert": {"patient00001"}} and not notes
    assert layout(sets[0].layout).read(sets[0].root, Request()).avoid == {"patient00001"}


@pytest.mark.parametrize(
    ("parent", "subject", "images"),
    [
        ("mimic", "10000001", ("3c-4d", "1a-2b")),
        ("rexgradient", "GRDN1", ("1.3.1.1", "1.2.1.1")),
    ],
)
def test_each_parent_has_its_own_layout(
    roots: Path, parent: str, subject: str, images: tuple[str, str]
) -> None:
    tables = layout(f"chextemporal_{parent}").read(roots / "temporal", Request())
    (label,) = tables.progressions.to_dict("records")
    assert (label["subject_id"], label["image_id"], label["prior_image_id"]) == (subject, *images)
    assert sum(drop.count for drop in tables.dropped["elsewhere"]) == 6 + 5  # gold, silver
    assert not any(drop.failed for drop in tables.dropped["elsewhere"])
    assert not tables.dropped["progressions"]


def test_damage_is_counted_or_one_clear_error(roots: Path) -> None:
    root = written(
        roots / "bad",
        gold(1, "edema", "Stable"),
        gold(1, "edema", "Stable", dataset="padchest"),
        gold(1, "edema", "Better"),
        gold(1, " ", "Stable"),
        gold(1, "edema", "Stable", img_path_prev="somewhere/view1_frontal.jpg"),
    )
    tables = chextemporal.read_chexpert(root, Request())
    assert len(tables.progressions) == 1
    counted = {
        part: {drop.reason: (drop.count, drop.failed) for drop in drops}
        for part, drops in tables.dropped.items()
    }
    assert counted["elsewhere"] == {
        f"{GOLD}: dataset is none of chexpert, mimic, rexgradient": (1, True)
    }
    assert counted["progressions"] == {
        f"{GOLD}: progression is none of improved, stable, worse, new, resolved": (1, True),
        f"{GOLD}: patient_id or finding is blank": (1, True),
        f"{GOLD}: a path names no image": (1, True),
    }
    pd.DataFrame([gold(1, "edema", "Stable")]).drop(columns="dataset").to_parquet(root / GOLD)
    with pytest.raises(InputError, match=rf"{GOLD}: column 'dataset' is missing"):
        chextemporal.read_chexpert(root, Request())
    (root / GOLD).write_bytes((roots / "temporal" / GOLD).read_bytes()[:500])
    with pytest.raises(InputError, match=rf"{GOLD}: not a readable Parquet file"):
        chextemporal.read_chexpert(root, Request())
    (root / GOLD).unlink()
    with pytest.raises(InputError, match=rf"{GOLD} not found"):
        chextemporal.read_chexpert(root, Request())


def test_images_that_no_parent_has_and_pairs_against_the_dates_are_damage(roots: Path) -> None:
    other = {"img_path_curr": "patient00001/study1/view1_frontal.jpg"}
    other["img_path_prev"] = "patient00001/study2/view1_frontal.jpg"
    lost = gold(9, "edema", "Stable")
    written(
        roots / "temporal", gold(1, "edema", "Stable"), lost, gold(1, "edema", "Worse", **other)
    )
    (roots / "temporal" / SILVER).unlink()
    flow, rows = build(roots, max_failed_share=0.9)
    assert len(rows) == 1
    assert dropped(flow) == {
        "image is not in the image data set": 1,
        "the prior image is not earlier": 1,
    }
    with pytest.raises(InputError, match="2 of 3 labels failed at 'two images of the patient"):
        build(roots)


def rexgradient_ids(settings: HospitalSettings) -> set[str]:
    patients = (rexgradient_patient(settings, number) for number in range(patient_count(settings)))
    studies = (study for patient in patients for study in patient.studies)
    return {image.image_id for study in studies for image in study.images}


def test_two_studies_of_one_day_are_in_the_order_of_the_label(roots: Path) -> None:
    """The narrative of one of them says no hour."""
    days = {1: "CHEST: 3/2/2005 1323 hours", 2: "CHEST: 3/2/2005"}
    chexpert_plus(
        roots / "plus", *(image_row(1, n, section_narrative=day) for n, day in days.items())
    )
    written(roots / "temporal", gold(1, "edema", "Stable"))
    (roots / "temporal" / SILVER).unlink()
    flow, rows = build(roots)
    assert len(rows) == 1 and not dropped(flow)
    assert any("two studies of one time" in note for note in flow["notes"])


def test_the_copy_is_of_its_parents_patients(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 320, "image_size": 64})
    roots = {name: tmp_path / name for name in ("chextemporal_chexpert", "chexpert_plus")}
    for name, root in roots.items():
        assert writer(name)(settings, root, 1)
    temporal, plus = roots.values()
    options = ["--layout", "chextemporal_chexpert", "--root", temporal]
    options += ["--images-layout", "chexpert_plus", "--images-root", plus]
    flow, rows = cohort(tmp_path / "out", *options, kind="progression", directions="five")
    tested = rows["split"] == "test"
    assert flow["synthetic"] and tested.sum() > 10 and (~tested).sum() > 30
    assert rows.loc[tested, "label"].str.contains(";").any()
    assert not {*rows.loc[tested, "subject_id"]} & {*rows.loc[~tested, "subject_id"]}
    counts = dropped(flow)
    assert counts[f"{GOLD}: on images of mimic"] == 2
    assert counts[f"{GOLD}: on images of rexgradient"] > 0
    rex = layout("chextemporal_rexgradient").read(temporal, Request()).progressions
    lists = rexgradient_ids(settings)
    assert len(rex) and {*rex["image_id"], *rex["prior_image_id"]} <= lists
