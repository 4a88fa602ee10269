"""CheXTemporal's two open parent data sets as one cohort: rows, images of both, account, people."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cohort_fixtures import make
from test_data_chexpert_plus import row as image_row
from test_data_chexpert_plus import written as chexpert_plus
from test_data_chextemporal import GOLD, MIMIC, REX, gold, silver, written
from test_data_rexgradient import entry
from test_data_rexgradient import written as rexgradient

from cxr_files.errors import InputError
from cxrflow.data.cohorts.flow import rewrite_flow
from cxrflow.data.cohorts.held_out import held_out_patients, held_out_sets
from cxrflow.data.cohorts.join_cohorts import common_folder, main
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.store import PixelStore, read_sources

PARENTS = {"chexpert": "chexpert_plus", "rexgradient": "rexgradient"}
FOLDERS = {"chexpert": "plus", "rexgradient": "far/rex"}


def of_rexgradient(patient: int, finding: str, progression: str) -> dict[str, Any]:
    """A radiologist's answer about the first two studies of a patient of ReXGradient's copy."""
    uid = f"1.2.{patient}"
    places = [f"deid_png/P{patient}/A{n}/studies/{uid}.{n}/{uid}.{n}.0.png" for n in (1, 2)]
    paths = dict(zip(("img_path_prev", "img_path_curr"), places, strict=True))
    changes = {"patient_id": f"P{patient}", "dataset": "rexgradient", **paths}
    return gold(0, finding, progression, **changes)


def read_by_reports(patient: int, finding: str, progression: str) -> dict[str, Any]:
    """The same, of a language model."""
    answer = of_rexgradient(patient, finding, progression)
    return {
        **{name: answer[name] for name in ("dataset", "patient_id", "progression")},
        **{"finding": finding, "evidence": ["grown"]},
        "parent_image_curr": f"rexgradient/{answer['img_path_curr']}",
        "parent_image_prev": f"rexgradient/{answer['img_path_prev']}",
    }


GOLD_ROWS = (
    *(gold(1, "edema", word) for word in ("Worse", "Resolved")),
    gold(9, "edema", "Stable"),  # no such image in CheXpert Plus
    of_rexgradient(1, "edema", "New"),
    of_rexgradient(2, "lung opacity", "Stable"),
    gold(7, "edema", "Stable", **REX),  # no such image in ReXGradient
    *(gold(8, "edema", word, **MIMIC) for word in ("Stable", "New")),
    gold(8, "edema", "Stable", dataset="padchest"),
)
SILVER_ROWS = (
    silver(1, "Edema", "Worse"),
    silver(2, "Edema", "Stable"),
    silver(3, "Edema", "Improved"),
    read_by_reports(1, "Edema", "Stable"),
    read_by_reports(3, "Edema", "Worse"),
    read_by_reports(4, "Edema", "Improved"),
)


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """Radiologists have read CheXpert Plus's patient 1 and ReXGradient's patients 1 and 2."""
    rows = [image_row(patient, study) for patient in (1, 2, 3) for study in (1, 2)]
    chexpert_plus(tmp_path / "plus", *rows)
    studies = [entry(patient, study, ["PA"]) for patient in (1, 2, 3, 4) for study in (1, 2)]
    rexgradient(tmp_path / "far/rex", "train", *studies)
    written(tmp_path / "temporal", *GOLD_ROWS, reports=SILVER_ROWS)
    return tmp_path


def joined(roots: Path, **settings: Any) -> Path:
    """The folder of the joined cohort."""
    for parent, holder in PARENTS.items():
        options = ["--layout", f"chextemporal_{parent}", "--root", roots / "temporal"]
        options += ["--images-layout", holder, "--images-root", roots / FOLDERS[parent]]
        kind = {"kind": "progression", "directions": "five", "max_failed_share": 0.9}
        shares = {"shares": {"train": 0.5, "validate": 0.5}}
        make(roots / parent, *options, **kind, splits=shares, **settings)
    return join(roots)


def join(roots: Path) -> Path:
    options = ["--cohorts", *(roots / parent for parent in PARENTS)]
    options += ["--roots", *(roots / folder for folder in FOLDERS.values())]
    main([*map(str, options), "--output", str(roots / "both")])
    return roots / "both"


def test_rows_of_both_parents_are_one_cohort(roots: Path) -> None:
    folder = joined(roots)
    rows = pd.read_parquet(folder / "samples.parquet")
    columns = ["subject_id", "finding", "label", "quality"]
    assert {*rows[columns].itertuples(index=False, name=None)} == {
        ("patient00001", "Edema", "worsening;resolved", "gold"),
        ("P1", "Edema", "new", "gold"),
        ("P2", "Lung Opacity", "stable", "gold"),
        ("patient00002", "Edema", "stable", "silver"),
        ("patient00003", "Edema", "improving", "silver"),
        ("P3", "Edema", "worsening", "silver"),
        ("P4", "Edema", "improving", "silver"),
    }
    # All that radiologists have read are tested on, whose other labels nobody learns from.
    tested = rows["split"] == "test"
    assert (rows["quality"] == "gold").equals(tested)
    assert not {*rows.loc[tested, "subject_id"]} & {*rows.loc[~tested, "subject_id"]}
    parts = pd.read_csv(folder / "split.csv", index_col="subject_id")["split"]
    assert {*parts.index[parts == "test"]} == {"patient00001", "P1", "P2"}


def test_images_of_each_are_read_from_its_own_folder(roots: Path) -> None:
    """One has PNGs of 8 bits, the other of 16; a store has both."""
    folder = joined(roots)
    root = Path(common_folder([roots / name for name in FOLDERS.values()]))
    sources = read_sources([folder / "images.parquet"])
    settings, output = PixelSettings(min_side=8), roots / "store"
    build_store(root, sources, Geometry.parse("square16"), settings, output, 1)
    store = PixelStore(output)
    assert {*store.index["path"].str.split("/").str[0]} == {"plus", "far"}
    bits = store.index.set_index("image_id")["bits"]
    assert bits.groupby(bits.index.str.startswith("patient")).unique().map(list).to_dict() == {
        True: [8],
        False: [16],
    }
    pixels = store.read(store.rows(list(store.index["image_id"])))
    assert pixels.std(axis=(1, 2)).min() > 40  # 16 bits are not washed out


def test_the_account_says_whose_rows_there_are_and_what_no_parent_has(roots: Path) -> None:
    flow = json.loads((joined(roots) / "flow.json").read_text())
    sets = {name: {part: n["samples"] for part, n in s.items()} for name, s in flow["sets"].items()}
    assert sets == {
        "chextemporal_chexpert": {"test": 1, "train": 1, "validate": 1},
        "chextemporal_rexgradient": {"test": 2, "train": 1, "validate": 1},
    }
    assert {name: sizes["samples"] for name, sizes in flow["splits"].items()} == {
        "test": 3,
        "train": 2,
        "validate": 2,
    }
    (step,) = flow["steps"]
    dropped = {drop["reason"]: (drop["count"], drop["failed"]) for drop in step["dropped"]}
    held = "trained on no more: its patient is among the labels that are tested on"
    assert dropped == {
        f"{GOLD}: on images of mimic": (2, False),
        f"{GOLD}: dataset is none of chexpert, mimic, rexgradient": (1, True),
        "chextemporal_chexpert: image is not in the image data set": (1, True),
        "chextemporal_rexgradient: image is not in the image data set": (1, True),
        f"chextemporal_chexpert: {held}": (1, False),
        f"chextemporal_rexgradient: {held}": (1, False),
        "chextemporal_chexpert: further direction, said in the finding's first row": (1, False),
    }
    count = sum(number for number, _ in dropped.values())
    assert step["kept"] + count == len(GOLD_ROWS) + len(SILVER_ROWS)
    assert flow["labels"]["test/Edema/new"] == 1 and flow["classes"][-1] == "resolved"
    assert flow["dataset"] == "chextemporal_chexpert+chextemporal_rexgradient"


def test_an_image_that_only_one_parent_drops_is_no_image_of_another(roots: Path) -> None:
    """What one cohort has is not counted as lost because the other leaves it out."""
    flows = [
        json.loads((joined(roots).parent / name / "flow.json").read_text()) for name in PARENTS
    ]
    elsewhere = [flow["steps"][1] for flow in flows]
    assert [{drop["reason"]: drop["count"] for drop in step["dropped"]} for step in elsewhere] == [
        {
            f"{GOLD}: on images of mimic": 2,
            f"{GOLD}: on images of rexgradient": 3,
            "silver_findings.parquet: on images of rexgradient": 3,
            f"{GOLD}: dataset is none of chexpert, mimic, rexgradient": 1,
        },
        {
            f"{GOLD}: on images of chexpert": 3,
            f"{GOLD}: on images of mimic": 2,
            "silver_findings.parquet: on images of chexpert": 3,
            f"{GOLD}: dataset is none of chexpert, mimic, rexgradient": 1,
        },
    ]


@pytest.mark.parametrize(
    ("numbered", "gold_patients"),
    [("chexpert", {"patient00001", "patient00009"}), ("rexgradient", {"P1", "P2", "GRDN1"})],
)
def test_gold_patients_of_either_parent_are_held_out_of_pairs(
    roots: Path, numbered: str, gold_patients: set[str]
) -> None:
    """Both sets are named to a training on either parent; patients of the other are not its own."""
    temporal = roots / "temporal"
    sets = held_out_sets([f"chextemporal_{parent}={temporal}" for parent in PARENTS])
    patients = {"patient00001", "patient00002"} if numbered == "chexpert" else {"P1", "P2", "P3"}
    held_out, notes = held_out_patients(sets, numbered, patients)
    assert held_out == {f"chextemporal_{numbered}": gold_patients}
    (note,) = notes
    assert note.endswith("no equal ids): nothing to hold out")


def test_cohorts_of_two_kinds_are_not_joined(roots: Path) -> None:
    joined(roots)
    flow = json.loads((roots / "rexgradient/flow.json").read_text())
    rewrite_flow(roots / "rexgradient", flow | {"kind": "pairs"})
    (roots / "both").rename(roots / "before")
    with pytest.raises(InputError, match="both: its cohorts are of kind pairs and progression"):
        join(roots)
