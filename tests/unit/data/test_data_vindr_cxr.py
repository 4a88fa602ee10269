"""VinDr-CXR as published: consensus of the test part, majority of three radiologists elsewhere."""

from pathlib import Path

import pandas as pd
import pytest
from cohort_fixtures import make
from data_fixtures import write_dicom

from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.data.prompts import PROMPT_SETS
from cxrflow.data.protocols import protocol
from cxrflow.data.readers import vindr_cxr
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.vindr_cxr import CLASSES

NAMES = ("a", "b", "c", "d")


def table(rows: dict[str, list[str]], readers: int = 1, **names: str) -> pd.DataFrame:
    """A row an image and reader; ``rows``: of each reader in turn, the classes it sees."""
    records = [
        {
            "image_id": image,
            "rad_id": f"R{n + 1}",
            **{c: int(c in seen.split("|")) for c in CLASSES},
        }
        for image, answers in rows.items()
        for n, seen in enumerate(answers)
    ]
    frame = pd.DataFrame(records).rename(columns=names)
    return frame.drop(columns="rad_id") if readers == 1 else frame


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two test images and two training images; one of them has no file."""
    (tmp_path / "annotations").mkdir()
    test = table(
        {"a": ["ILD|Other diseases"], "b": ["No finding"]}, **{"Other diseases": "Other disease"}
    )
    test.to_csv(tmp_path / "annotations/image_labels_test.csv", index=False)
    train = {"c": ["Edema|COPD", "Edema", "ILD"], "d": ["No finding", "No finding", "Edema"]}
    table(train, readers=3).to_csv(tmp_path / "annotations/image_labels_train.csv", index=False)
    for name, part in zip(NAMES[:3], ("test", "test", "train"), strict=True):
        write_dicom(tmp_path / f"{part}/{name}.dicom")
    return tmp_path


def test_labels_are_the_consensus_or_what_most_say(root: Path) -> None:
    tables = vindr_cxr.read(root, Request())
    labels = tables.labels.set_index("image_id")
    seen = {name: {c for c in CLASSES if labels.loc[name, c] == 1} for name in NAMES}
    assert seen == {
        **{"a": {"ILD", "Other diseases"}, "b": {"No finding"}},
        **{"c": {"Edema"}, "d": {"No finding"}},
    }
    assert len(CLASSES) == 28 and labels.notna().all(axis=None)
    images = tables.images.set_index("image_id")
    assert images["image_path"].to_dict() == {
        **{"a": "test/a.dicom", "b": "test/b.dicom"},
        **{"c": "train/c.dicom", "d": "train/d.dicom"},
    }
    assert images["failure"].notna().to_dict() == {"a": False, "b": False, "c": False, "d": True}
    assert tables.splits is not None
    assert tables.splits["split"].value_counts().to_dict() == {"test": 2, "train": 2}
    # Of two readers who differ nothing is known.
    path = root / "annotations/image_labels_train.csv"
    table({"c": ["Edema", "ILD"]}, readers=2).to_csv(path, index=False)
    labels = vindr_cxr.read(root, Request(headers=False)).labels.set_index("image_id").loc["c"]
    assert labels.isna().sum() == 2 and labels["Pneumonia"] == 0


def test_the_protocol_scores_the_published_test_part(root: Path) -> None:
    write_dicom(root / "train/d.dicom")
    options = ("--layout", "vindr_cxr", "--root", root)
    make(root / "cohort", *options, kind="classification", **protocol("vindr_cxr").cohort)
    rows = read_table(root / "cohort/samples.parquet")
    assert rows["image_id"].tolist() == ["a", "b"] and set(rows["split"]) == {"test"}
    assert read_json(root / "cohort/flow.json")["classes"] == list(CLASSES)
    assert PROMPT_SETS["chexzero"].of("No finding") == (("no finding",), ("finding",))
    assert PROMPT_SETS["chexzero"].of("ILD")[0] == ("interstitial lung disease",)


def test_bad_tables_are_counted_or_named(root: Path) -> None:
    path = root / "annotations/image_labels_test.csv"
    whole = path.read_text()
    path.write_text(whole.replace("\na,0", "\na,7"))
    tables = vindr_cxr.read(root, Request(headers=False))
    (drop,) = tables.dropped["images"]
    assert (drop.reason, drop.count) == ("image_labels_test.csv: a label is neither 0 nor 1", 1)
    # Of three readers one cannot be read: what most of them say is not known.
    train = root / "annotations/image_labels_train.csv"
    answers = train.read_text()
    for label in ("x", "7", ""):
        train.write_text(answers.replace("\nc,R2,0", f"\nc,R2,{label}"))
        assert "c" not in set(vindr_cxr.read(root, Request(headers=False)).images["image_id"])
    train.write_text(answers)
    path.write_text(whole.replace("Edema", "Oedema"))
    with pytest.raises(InputError, match=r"labels_test.csv: column 'Edema' is missing"):
        vindr_cxr.read(root, Request(headers=False))
    path.write_text(whole.replace("Other disease", "Others"))
    with pytest.raises(InputError, match="column 'Other diseases' is missing; expected it, or the"):
        vindr_cxr.read(root, Request(headers=False))
    path.write_text(whole.splitlines()[0] + "\n")  # a header alone
    assert vindr_cxr.read(root, Request(headers=False)).images["image_id"].tolist() == ["c", "d"]
    path.write_text(whole.replace("\nb,", "\na,"))
    with pytest.raises(InputError, match=r"1 value\(s\) of image_id stand in several rows"):
        vindr_cxr.read(root, Request(headers=False))
    path.write_text(whole.replace("\nb,", "\nc,"))
    with pytest.raises(InputError, match=r"1 image\(s\) in both parts \(c\); expected each in one"):
        vindr_cxr.read(root, Request(headers=False))
    path.unlink()
    assert vindr_cxr.read(root, Request(headers=False)).images["image_id"].tolist() == ["c", "d"]
    (root / "annotations/image_labels_train.csv").unlink()
    with pytest.raises(InputError, match="annotations/image_labels_train.csv or annotations/im"):
        vindr_cxr.read(root, Request(headers=False))


BOXES = ("image_id", "class_name", "class_id", "rad_id", "x_min", "y_min", "x_max", "y_max")


def boxes(path: Path, *rows: tuple[object, ...]) -> Path:
    """Of each row: image, class, radiologist, and the corners of a box if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        (image, name, 0, *rest, *[None] * (5 - len(rest))) for image, name, *rest in rows
    ]  # the number of a class is not read
    pd.DataFrame(lines, columns=BOXES).to_csv(path, index=False)
    return path


FOUND = (
    ("e", "ILD", "R1", 10, 20, 30, 40),
    ("e", "ILD", "R1", 40, 20, 60, 40),
    ("e", "ILD", "R2", 12, 22, 32, 42),
    ("e", "Nodule/Mass", "R3", 50, 50, 60, 60),
    ("f", "No finding", "R1"),
    ("f", "No finding", "R2"),
    ("f", "Atelectasis", "R3", 1, 1, 9, 9),
)


def test_kaggle_s_list_of_boxes_says_labels_too(tmp_path: Path) -> None:
    boxes(tmp_path / "train.csv", *FOUND)
    for name in "ef":
        write_dicom(tmp_path / f"train/{name}.dicom", shape=(100, 80))
    tables = vindr_cxr.read(tmp_path, Request())
    labels = tables.labels.set_index("image_id")
    named = ["ILD", "Nodule/Mass", "No finding", "Atelectasis"]
    assert labels.loc["e", named].tolist() == [1, 0, 0, 0]
    assert labels.loc["f", named].tolist() == [0, 0, 1, 0]
    assert labels.drop(columns=named).isna().all(axis=None)  # this edition does not name them
    assert tables.images["image_path"].tolist() == ["train/e.dicom", "train/f.dicom"]
    assert tables.splits is not None and set(tables.splits["split"]) == {"train"}
    # Of both who see it; what one of three sees is counted.
    assert tables.boxes[["image_id", *"xywh"]].to_numpy().tolist() == [
        ["e", 10, 20, 20, 20],
        ["e", 40, 20, 20, 20],
        ["e", 12, 22, 20, 20],
    ]
    assert set(tables.boxes["phrase"]) == {"interstitial lung disease"}
    (drop,) = tables.dropped["boxes"]
    assert (drop.reason, drop.count, drop.failed) == (
        "train.csv: box of a class that most radiologists do not see",
        2,
        False,
    )


def test_boxes_of_class_names_are_grounded_in_pixels_of_the_file(root: Path) -> None:
    """Of the test part they are agreed on; the training part has those of most."""
    path = boxes(
        root / "annotations/annotations_test.csv",
        ("a", "ILD", None, 10, 20, 30, 40),
        ("b", "No finding", None),
    )
    pd.read_csv(path).drop(columns=["rad_id", "class_id"]).to_csv(path, index=False)
    boxes(root / "annotations/annotations_train.csv", *[("c", *row[1:]) for row in FOUND[:4]])
    for name in ("test/a", "test/b", "train/c"):
        write_dicom(root / f"{name}.dicom", shape=(100, 80))
    options = ("--layout", "vindr_cxr", "--root", root)
    flow = make(root / "all", *options, kind="grounding")
    rows = read_table(root / "all/samples.parquet").set_index("image_id")
    assert {name: [list(b) for b in rows.loc[name, "boxes"]] for name in rows.index} == {
        "a": [[10, 20, 20, 20]],
        "c": [[10, 20, 20, 20], [40, 20, 20, 20], [12, 22, 20, 20]],
    }
    sizes = rows[["image_width", "image_height"]].drop_duplicates()
    assert sizes.to_numpy().tolist() == [[80, 100]]
    assert flow["splits"]["test"]["samples"] == 2 and rows["subject_id"].isna().all()
    make(root / "parts", *options, kind="grounding", splits={"method": "official"})
    rows = read_table(root / "parts/samples.parquet")
    assert dict(zip(rows["image_id"], rows["split"], strict=True)) == {"a": "test", "c": "train"}


def test_bad_boxes_go_with_their_region_and_bad_classes_with_their_image(tmp_path: Path) -> None:
    boxes(
        tmp_path / "train.csv",
        ("e", "ILD", "R1", 10, 20, 30, 40),
        ("e", "ILD", "R1", 40, 20, 40, 40),
        ("e", "Calcification", "R1", 10, 20, 30, 40),
        ("f", "Shadow", "R1", 10, 20, 30, 40),
        ("g", "ILD", "R1"),
    )
    tables = vindr_cxr.read(tmp_path, Request(headers=False))
    assert tables.boxes["category"].tolist() == ["Calcification"]
    assert tables.images["image_id"].tolist() == ["e", "g"]
    drops = {(one.reason, one.count) for one in tables.dropped["boxes"]}
    assert drops >= {
        ("train.csv: class_name is none of the classes", 1),
        ("train.csv: box without area", 1),
        ("another box of its region is impossible", 1),
        ("train.csv: box is not finite, or larger than any image", 1),
    }
