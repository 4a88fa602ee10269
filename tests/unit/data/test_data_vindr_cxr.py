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
