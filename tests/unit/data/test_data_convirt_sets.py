"""COVIDx v4, MURA v1.1, the musculoskeletal folder: whole and damaged; drawn validation parts."""

import gzip
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cohort_fixtures import cohort, make, step
from data_fixtures import dropped, read

from cxr_files.atomic import require_whole
from cxr_files.errors import InputError
from cxrflow.data.cohorts.settings import CohortSettings, ValidationSettings
from cxrflow.data.cohorts.validation import validation_units
from cxrflow.data.layouts import layout
from cxrflow.reports.corpus import main as read_reports
from cxrflow.reports.texts import read_texts

CLASSES = ["COVID-19", "pneumonia", "normal"]


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


def covidx(root: Path, train: int = 20) -> Path:
    """Patients of two images each in the training list; the test list lacks the collection."""
    lists = {
        "train": [f"p{n // 2} a{n}.png {CLASSES[n % 3]} rsna" for n in range(train)],
        "test": [f"q{n} b{n}.jpg {CLASSES[n % 3]}" for n in range(3)],
    }
    (root / "labels").mkdir(parents=True)
    for part, lines in lists.items():
        (root / "labels" / f"{part}_COVIDx4.txt").write_text("\n".join(lines) + "\n")
        for line in lines:
            touch(root / "data" / part / line.split()[1])
    return root


def add_line(root: Path, line: str, part: str = "train") -> None:
    with open(root / "labels" / f"{part}_COVIDx4.txt", "a") as file:
        file.write(line + "\n")


def test_covidx_has_one_class_an_image_and_its_collection(tmp_path: Path) -> None:
    tables = read("covidx", covidx(tmp_path / "covidx"))
    assert tables.classes == CLASSES and (tables.labels[CLASSES].sum(axis=1) == 1).all()
    labels = tables.labels.set_index("image_id")
    assert labels.loc["a1.png"].tolist() == [0, 1, 0] and labels.loc["b2.jpg"].tolist() == [0, 0, 1]
    images = tables.images.set_index("image_id")
    assert images.loc["b0.jpg", "image_path"] == "data/test/b0.jpg"
    assert images["subgroup"].eq("rsna").sum() == 20 and images["subgroup"].isna().sum() == 3
    assert images["failure"].isna().all() and not tables.dropped["images"]
    assert layout("covidx").people & layout("rsna").people == {"nih"}


def test_covidx_lists_may_be_gzipped(tmp_path: Path) -> None:
    root = covidx(tmp_path / "covidx")
    plain = root / "labels/train_COVIDx4.txt"
    Path(f"{plain}.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert len(read("covidx", root).images) == 23
    Path(f"{plain}.gz").write_bytes(b"\x1f\x8b cut off")
    with pytest.raises(InputError, match="cut off or not gzip"):
        read("covidx", root)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("p9 c.png rsna", "3 fields, of which none is the class"),
        ("p9 normal rsna", "3 fields, of which none is the file's name"),
        ("p9 c.png normal rsna more", "5 fields; expected patient, file, class"),
        ("p9 c.png", "2 fields; "),
        ("p9 c.png positive rsna", "class 'positive'; expected one of COVID-19, pneumonia, normal"),
    ],
)
def test_covidx_lines_that_do_not_say_enough(tmp_path: Path, line: str, reason: str) -> None:
    root = covidx(tmp_path / "covidx")
    add_line(root, line)
    tables = read("covidx", root)
    [drop] = tables.dropped["images"]
    assert drop.failed and drop.count == 1 and len(tables.images) == 23
    assert drop.reason.startswith(f"train_COVIDx4.txt: {reason}")
    assert drop.examples == (f"{root}/labels/train_COVIDx4.txt:21",)
    for number in range(5):
        add_line(root, line.replace("p9", f"p9{number}"))
    with pytest.raises(InputError, match="6 of 29 images failed at 'images listed', more than max"):
        make(tmp_path / "out", "--layout", "covidx", "--root", root, **CLASSIFICATION)


def test_covidx_files_that_stand_twice(tmp_path: Path) -> None:
    root = covidx(tmp_path / "covidx")
    for line in ("p9 a0.png COVID-19 fig1", "p1 a3.png normal rsna", "p2 a5.png normal rsna"):
        add_line(root, line)
    tables = read("covidx", root)
    assert dropped(tables, "images") == {
        "the same row again": 1,
        "one file under several classes": 1,
        "the same file again": 1,
    }
    assert len(tables.images) == 22 and "a3.png" not in set(tables.images["image_id"])
    (root / "data/train/a1.png").unlink()
    assert read("covidx", root).images.set_index("image_id").loc["a1.png", "failure"]
    add_line(root, "q7 a2.png normal", "test")  # of the other list: a leak
    with pytest.raises(InputError, match=r"image_id stand in several rows that differ \(a2.png\)"):
        read("covidx", root)


CLASSIFICATION: dict[str, Any] = {"kind": "classification", "splits": {"method": "official"}}


def drawn(**validation: object) -> dict[str, Any]:
    return {"kind": "classification", "splits": {"method": "official", "validation": validation}}


@pytest.mark.parametrize("unit", ["images", "patients"])
def test_validation_is_drawn_from_the_training_part(tmp_path: Path, unit: str) -> None:
    root = covidx(tmp_path / "covidx")
    options = ["--layout", "covidx", "--root", root]
    whole, before = cohort(tmp_path / "whole", *options, **CLASSIFICATION)
    sizes = {part: sizes["samples"] for part, sizes in whole["splits"].items()}
    assert sizes == {"train": 20, "test": 3}
    flow, rows = cohort(tmp_path / unit, *options, **drawn(count=5, unit=unit))
    assert (rows["split"] == "test").eq(before["split"] == "test").all()
    validate = rows[rows["split"] == "validate"]
    other = rows[rows["split"] == "train"]
    # Pairs of images: five images are three patients.
    assert len(validate) == {"images": 5, "patients": 6}[unit]
    crossing = set(validate["subject_id"]) & set(other["subject_id"])
    check = next(one for one in flow["checks"] if one["name"] == "patient in one split")
    assert bool(crossing) == (unit == "images") == (not check["passed"])
    assert flow["splits"]["validate"]["samples"] == len(validate)
    require_whole(tmp_path / unit / "flow.json")  # and all beside it
    counts = {key: n for key, n in flow["labels"].items() if key.startswith("validate/")}
    assert sum(counts.values()) == 3 * len(validate)
    assert flow["labels"]["test/normal/1"] == 1 == whole["labels"]["test/normal/1"]
    assert flow["fingerprint"] != whole["fingerprint"]
    assert "validation is drawn" in flow["notes"][-1]
    split = pd.read_csv(tmp_path / unit / "split.csv").set_index("subject_id")["split"]
    key = "image_id" if unit == "images" else "subject_id"
    assert (rows[key].map(split) == rows["split"]).all()
    assert "validation" not in whole["settings"]["splits"]
    assert rows.equals(cohort(tmp_path / "again", *options, **drawn(count=5, unit=unit))[1])


def test_a_patient_may_be_called_na(tmp_path: Path) -> None:
    root = covidx(tmp_path / "covidx")
    path = root / "labels" / "train_COVIDx4.txt"
    path.write_text(path.read_text().replace("p0 ", "NA "))
    options = ["--layout", "covidx", "--root", root]
    _, rows = cohort(tmp_path / "out", *options, **drawn(count=18, unit="patients"))
    assert "NA" in set(rows["subject_id"])
    split = pd.read_csv(tmp_path / "out" / "split.csv", keep_default_na=False)
    split = split.set_index("subject_id")["split"]
    assert (rows["subject_id"].map(split) == rows["split"]).all()


def test_a_missing_image_moves_no_other_in_or_out() -> None:
    units = pd.Series([f"image{n}" for n in range(200)])
    by_image = ValidationSettings(unit="images", count=20)
    whole = validation_units(units, by_image, 0)
    lost = validation_units(units[units != whole[3]], by_image, 0)
    assert len(whole) == len(lost) == 20 and len(set(whole) - set(lost)) == 1
    assert validation_units(units, by_image, 1) != whole
    share = ValidationSettings(unit="images", share=0.1)
    assert validation_units(units, share, 0) == whole


UNSPLIT = {"method": "all", "validation": {"count": 5}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (drawn(count=5, share=0.1), "expected either count or share"),
        (drawn(), "expected either count or share"),
        ({**drawn(count=5), "kind": "pairs"}, "splits.validation of a cohort of kind pairs"),
        (drawn(count=5) | {"splits": UNSPLIT}, "training part of method official"),
    ],
)
def test_validation_that_cannot_be_asked_for(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CohortSettings.model_validate(settings)


def test_validation_that_leaves_nothing_to_train_on(tmp_path: Path) -> None:
    root = covidx(tmp_path / "covidx")
    with pytest.raises(InputError, match="leaves no image to train on"):
        make(tmp_path / "out", "--layout", "covidx", "--root", root, **drawn(count=20))
    assert not (tmp_path / "out").exists()  # nothing that looks finished


def mura(root: Path) -> Path:
    """Twelve studies to train on, four of them abnormal, and three published for validation."""
    parts = {"train": 12, "valid": 3}
    for part, studies in parts.items():
        paths, labels = [], []
        for number in range(studies):
            positive = number % 3 == 0
            body = "WRIST" if number % 2 else "ELBOW"
            patient = number + (0 if part == "train" else 50)
            said = "positive" if positive else "negative"
            folder = f"{part}/XR_{body}/patient{patient:05d}/study1_{said}"
            labels.append(f"MURA-v1.1/{folder}/,{int(positive)}")
            for image in range(1, 3 + positive):
                touch(root / folder / f"image{image}.png")
                paths.append(f"MURA-v1.1/{folder}/image{image}.png")
        (root / f"{part}_image_paths.csv").write_text("\n".join(paths) + "\n")
        (root / f"{part}_labeled_studies.csv").write_text("\n".join(labels) + "\n")
    return root


def test_mura_labels_studies_and_tests_on_what_is_published_for_validation(tmp_path: Path) -> None:
    root = mura(tmp_path / "MURA")
    options = ["--layout", "mura", "--root", root]
    flow, rows = cohort(tmp_path / "out", *options, **drawn(share=0.1))
    assert flow["classes"] == ["Abnormal"] and len(rows) == 12 * 2 + 4 + 3 * 2 + 1
    said = rows["group_id"].str.endswith("_positive").astype(float)
    assert (rows["labels"].str[0] == said).all()
    assert rows.groupby("group_id").size().value_counts().to_dict() == {2: 10, 3: 5}
    assert (rows["split"] == "test").eq(rows["image_id"].str.startswith("valid/")).all()
    assert set(rows["subgroup"]) == {"WRIST", "ELBOW"}
    assert (rows["split"] == "validate").sum() in (3, 4, 5)  # of 2.8 images wanted
    assert all(check["passed"] for check in flow["checks"])
    assert (tmp_path / "MURA" / rows["image_path"][0]).is_file()
    assert read("mura", root, images=frozenset(rows["image_id"][:3])).images.shape[0] == 3


def test_mura_counts_studies_and_images_that_lack_each_other(tmp_path: Path) -> None:
    root = mura(tmp_path / "MURA")
    studies, paths = root / "train_labeled_studies.csv", root / "train_image_paths.csv"
    labels = studies.read_text().splitlines()
    bare = "MURA-v1.1/train/XR_HAND/patient00077/study1_negative"
    studies.write_text("\n".join([*labels[1:], labels[2], f"{bare}/,0"]) + "\n")
    tables = read("mura", root)
    assert dropped(tables, "labels") == {
        "the same study again": 1,
        "no image of the study is listed": 1,
    }
    options = ["--layout", "mura", "--root", root]
    flow = make(tmp_path / "out", *options, **CLASSIFICATION, max_failed_share=0.1)
    assert step(flow, "label known", "images")[1] == {"no label of any class": 3}
    assert step(flow, "labels listed", "labels")[1]["no image of the study is listed"] == 1
    paths.write_text(paths.read_text() + "MURA-v1.1/train/XR_HAND/._image1.png\nnonsense\n")
    drops = dropped(read("mura", root), "images")
    assert drops == {"train_image_paths.csv: no path of an image": 2}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("negative/,0", "negative/,1", "the label is not the one that the folder is named by"),
        ("negative/,0", "negative/,2", "no study and label (0 or 1)"),
        ("negative/,0", "negative/", "no study and label (0 or 1)"),
        ("XR_WRIST", "XR_KNEE", "no study and label (0 or 1)"),
    ],
)
def test_mura_labels_that_are_none(tmp_path: Path, old: str, new: str, reason: str) -> None:
    root = mura(tmp_path / "MURA")
    studies = root / "train_labeled_studies.csv"
    studies.write_text(studies.read_text().replace(old, new, 1))
    drops = dropped(read("mura", root), "labels")
    assert drops == {f"train_labeled_studies.csv: {reason}": 1}


def test_mura_labels_that_were_saved_again_are_read(tmp_path: Path) -> None:
    root = mura(tmp_path / "MURA")
    studies = root / "train_labeled_studies.csv"
    published = read("mura", root).labels
    lines = studies.read_text().splitlines()
    said = [re.sub("^(.*),([01])$", r'"\1",\2.0', line) for line in lines]
    studies.write_text("\n".join(said) + "\n")
    pd.testing.assert_frame_equal(read("mura", root).labels, published)


REPORT = """EXAMINATION: Wrist, three views.

FINDINGS:
There is a fracture of the distal radius. Alignment is normal.

Soft tissues are swollen.
IMPRESSION: Fracture of the distal radius.
"""


def musculoskeletal(root: Path, studies: int = 10) -> Path:
    """Two studies a patient, two images a study."""
    lines = ["study_id,patient_id,body_part"]
    (root / "reports").mkdir(parents=True)
    for number in range(studies):
        lines.append(f"w_{number},p{number // 2},wrist")
        (root / "reports" / f"w_{number}.txt").write_text(REPORT)
        for image in (1, 2):
            touch(root / "images" / f"w_{number}_{image}.png")
    (root / "studies.csv").write_text("\n".join(lines) + "\n")
    return root


def test_musculoskeletal_folder_becomes_pairs(tmp_path: Path) -> None:
    root = musculoskeletal(tmp_path / "bones")
    texts = tmp_path / "corpus"
    read_reports(["--layout", "musculoskeletal", "--root", str(root), "--output", str(texts)])
    sections = pd.read_parquet(texts / "sections.parquet").set_index("study_id")
    assert sections.loc["w_3", "impression"] == "Fracture of the distal radius."
    findings = REPORT.split("\n", 3)[3].split("IMP")[0]
    assert sections.loc["w_3", "findings"].split() == findings.split()
    assert sections.loc["w_3", "subject_id"] == "p1"
    sentences = pd.read_parquet(texts / "sentences.parquet")
    assert sentences.groupby("section").size().to_dict() == {"findings": 30, "impression": 10}
    (root / "reports" / "w_0.txt").unlink()
    for image in (1, 2):
        (root / "images" / f"w_9_{image}.png").unlink()
    touch(root / "images" / "x_1_1.png")
    touch(root / "images" / "thumbnail.gif")
    (root / "images" / "w_8_2.png").write_bytes(b"")
    (root / "reports" / "stray.txt").write_text(REPORT)
    read_reports(["--layout", "musculoskeletal", "--root", str(root), "--output", str(texts)])
    options = ["--layout", "musculoskeletal", "--root", root, "--corpus", texts]
    pairs: dict[str, Any] = {"unit": "image", "views": None, "require": ["image", "text"]}
    pairs |= {"splits": {"shares": {"train": 0.6, "validate": 0.4}}, "max_failed_share": 0.2}
    flow, rows = cohort(tmp_path / "out", *options, **pairs)
    assert step(flow, "report found", "studies")[1] == {"no report in the corpus": 1}
    assert step(flow, "frontal image", "studies")[1] == {"no image listed": 1}
    assert step(flow, "image file usable", "images")[1] == {"file is empty": 1}
    assert step(flow, "images listed", "images")[1] == {
        "no file named <study_id>_<n> with .png, .jpg, .jpeg, .dcm": 1,
        "its study is not listed": 1,
    }
    assert "stray" in flow["notes"][-1]
    assert len(rows) == 8 * 2 - 1 and rows["study_id"].nunique() == 8
    assert rows.groupby("subject_id")["split"].nunique().eq(1).all()
    assert list(rows["impression_sentences"].iloc[0]) == ["Fracture of the distal radius."]
    assert rows["prior_study_id"].isna().all()


def test_a_hospital_says_no_body_part(tmp_path: Path) -> None:
    """The same folder as a hospital's own: two columns are enough, a third is used."""
    root = musculoskeletal(tmp_path / "own", 4)
    parts = read("hospital", root).images["subgroup"]
    assert set(parts) == {"wrist"} and len(list(read_texts("hospital", root))) == 4
    path = root / "studies.csv"
    path.write_text(path.read_text().replace(",body_part", "").replace(",wrist", ""))
    tables = read("hospital", root)
    assert len(tables.studies) == 4 and len(tables.images) == 8
    assert tables.images["subgroup"].isna().all() and tables.images["subject_id"].notna().all()
    with pytest.raises(InputError, match="column 'body_part' is missing"):
        read("musculoskeletal", root)


def test_musculoskeletal_folder_that_is_none(tmp_path: Path) -> None:
    root = musculoskeletal(tmp_path / "bones", 4)
    path = root / "reports" / "w_1.txt"
    path.write_bytes(b"\xff\xfea")
    failures = [report.failure for report in read_texts("musculoskeletal", root)]
    assert failures == [None, "not UTF-8 text", None, None]
    listed = root / "studies.csv"
    listed.write_text(listed.read_text() + "w_1,p9,wrist\n")
    with pytest.raises(InputError, match=r"study_id stand in several rows that differ \(w_1\)"):
        read("musculoskeletal", root)
    listed.write_text(listed.read_text().replace("body_part", "part"))
    with pytest.raises(InputError, match="column 'body_part' is missing; expected study_id, pat"):
        read("musculoskeletal", root)
    for path in (root / "reports").iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"reports: no report; expected <study_id>.txt"):
        list(read_texts("musculoskeletal", root))
    for path in (root / "images").iterdir():
        path.unlink()
    (root / "images").rmdir()
    listed.write_text("study_id,patient_id,body_part\nw_1,p9,wrist\n")
    with pytest.raises(InputError, match=r"images: folder not found; expected images/<study_id>_"):
        read("musculoskeletal", root)
