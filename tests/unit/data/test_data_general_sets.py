"""Data sets without radiographs: ImageNet, and pairs of sentences."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cohort_fixtures import cohort
from PIL import Image

from cxr_files.errors import InputError
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.imagenet import CLASSES, LEAST, MOST, picture, wnid, write_imagenet
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.imagenet import META, TRUTH, read

TRAINED, VALIDATED = 35, 16


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "imagenet"
    assert write_imagenet(HospitalSettings(generic_pictures=TRAINED), folder)
    return folder


def test_pictures_are_read_with_their_classes(root: Path) -> None:
    tables = read(root, Request())
    assert tables.classes == [wnid(name) for name in CLASSES]
    assert not tables.dropped["images"] and tables.images["failure"].isna().all()
    labels = tables.labels.set_index("image_id")
    assert (labels.sum(axis=1) == 1).all()
    split = tables.splits.set_index("subject_id")["split"]
    assert split.value_counts().to_dict() == {"train": TRAINED, "val": VALIDATED}
    # A training picture's folder says its class; a validation picture's line does.
    lines = [int(line) for line in (root / TRUTH).read_text().splitlines()]
    for name, path in tables.images[["image_id", "image_path"]].itertuples(index=False):
        with Image.open(root / path) as opened:
            assert (opened.format, opened.mode) == ("JPEG", "RGB")
        expected = name.split("_")[0]
        if split[name] == "val":
            expected = wnid(CLASSES[lines[int(name[-8:]) - 1] - 1])
        assert labels.loc[name, expected] == 1


def test_what_is_above_the_classes_is_none(root: Path) -> None:
    from scipy.io import loadmat

    synsets = loadmat(root / META, squeeze_me=True)["synsets"]
    assert [str(one["WNID"]) for one in synsets][-1] == f"n{90_000_001 + len(CLASSES)}"
    assert sum(int(one["num_train_images"]) for one in synsets) == TRAINED
    assert synsets[-1]["children"].tolist() == [*range(1, len(CLASSES) + 1)]


def test_a_cohort_trains_on_one_part_and_validates_on_the_other(root: Path, tmp_path: Path) -> None:
    settings = {"kind": "classification", "splits": {"method": "official"}}
    options = ["--dataset", "imagenet", "--layout", "imagenet", "--root", root]
    _, samples = cohort(tmp_path / "cohort", *options, **settings)
    assert samples["split"].value_counts().to_dict() == {"train": TRAINED, "validate": VALIDATED}
    assert (np.stack(samples["labels"].to_list()).sum(axis=1) == 1).all()


def test_strange_files_are_counted_and_left_out(root: Path) -> None:
    folder = root / "train" / wnid("ring")
    next(folder.iterdir()).rename(folder / "ring.JPEG")
    (root / "train" / "n00000001").mkdir()
    (root / "train" / "n00000001" / "n00000001_1.JPEG").touch()
    (root / "val" / "ILSVRC2012_val_00000002.JPEG").rename(root / "val" / "second.JPEG")
    lines = (root / TRUTH).read_text().splitlines()
    (root / TRUTH).write_text("\n".join(["99", *lines[1:-1]]))
    tables = read(root, Request())
    found = {drop.reason: drop.count for drop in tables.dropped["images"]}
    assert found == {
        "not <WNID>/<WNID>_<n>.JPEG with a WNID of meta.mat": 2,
        "not ILSVRC2012_val_<8 digits>.JPEG": 1,
        f"{TRUTH.name} names no class of meta.mat": 1,
        f"{TRUTH.name} has no line for it": 1,
    }
    assert len(tables.images) == TRAINED + VALIDATED - 4
    assert all(drop.failed for drop in tables.dropped["images"])


@pytest.mark.parametrize(
    ("missing", "message"),
    [(META, "meta.mat: file not found; expected the development kit"), (TRUTH, "a line an image")],
)
def test_a_missing_file_of_the_kit_is_one_line(root: Path, missing: Path, message: str) -> None:
    (root / missing).unlink()
    with pytest.raises(InputError, match=message):
        read(root, Request())


def test_a_damaged_kit_and_an_empty_folder_are_said(root: Path) -> None:
    whole = (root / META).read_bytes()
    old = struct.pack("<5i", 0, 10**6, 10**6, 0, 4) + b"abcd"  # version 4, of a terabyte
    for damage in (whole[:200], b"", whole[:128] + struct.pack("<2I", 15, 50) + b"junk" * 20, old):
        (root / META).write_bytes(damage)
        with pytest.raises(InputError, match="meta.mat: .*; expected a table 'synsets'"):
            read(root, Request())
    (root / META).write_bytes(whole)
    for folder in ("train", "val"):
        (root / folder).rename(root / f"old {folder}")
    with pytest.raises(InputError, match="no train/<WNID>/"):
        read(root, Request())


@pytest.mark.parametrize("name", CLASSES)
def test_a_picture_is_coloured_and_its_own(name: str) -> None:
    one, again, other = (picture(name, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, again) and (one.shape != other.shape or (one != other).any())
    assert all(LEAST <= side <= MOST for side in one.shape[:2])
    assert np.ptp(one.mean(axis=(0, 1))) > 1  # no grey


FIRST = {
    "pair_id": "a1",
    "sentence1": "Heart size is normal.",
    "sentence2": "The heart is enlarged.",
    "gold_label": "contradiction",
}
NAMES = ("radnli_dev_v1.jsonl", "radnli_test_v1.jsonl")


def radnli(root: Path, *lines: Any) -> Path:
    """A RadNLI whose development file has these lines (objects or bytes), its test file one."""
    root.mkdir()
    made = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    (root / NAMES[0]).write_bytes(b"\n".join(made) + b"\n")
    (root / NAMES[1]).write_text(json.dumps(FIRST | {"sentence2": "Cardiomegaly."}) + "\n")
    return root


def make(output: Path, name: str, root: Path, **settings: Any) -> tuple[dict, pd.DataFrame]:
    return cohort(output, "--layout", name, "--root", root, **({"kind": "nli"} | settings))


def test_the_synthetic_sets_are_read_whole(written: Path, tmp_path: Path) -> None:
    flow, rows = make(tmp_path / "rad", "radnli", written / "radnli")
    assert list(rows) == ["sample_id", "pair_id", "premise", "hypothesis", "label", "split"]
    assert rows["sample_id"].is_unique and set(rows["split"]) == {"validate", "test"}
    assert flow["synthetic"] and flow["steps"][0]["dropped"] == []
    assert flow["splits"]["test"]["samples"] == (rows["split"] == "test").sum()
    assert flow["checks"][0] == {
        "name": "sentence pair in one split",
        "passed": True,
        "detail": "0 pairs of sentences stand in several of the published splits",
    }
    assert sum(flow["labels"].values()) == len(rows)
    flow, _ = make(tmp_path / "med", "mednli", written / "mednli")
    assert set(flow["splits"]) == {"train", "validate", "test"}


def test_what_cannot_be_used_is_counted_with_its_reason(tmp_path: Path) -> None:
    root = radnli(
        tmp_path / "root",
        FIRST,
        FIRST | {"gold_label": "-"},
        FIRST | {"gold_label": "maybe"},
        FIRST | {"sentence2": "  "},
        {key: value for key, value in FIRST.items() if key != "pair_id"},
        b'{"pair_id": "cut',
        b'["a list"]',
        b'{"pair_id": "\xff"}',
        b"",
        FIRST,
        FIRST | {"sentence1": FIRST["sentence2"], "sentence2": FIRST["sentence1"]},
        FIRST | {"sentence1": "A line\u2028end of another kind."},
    )
    flow, rows = make(tmp_path / "out", "radnli", root, max_failed_share=0.9)
    name, drops = NAMES[0], flow["steps"][0]["dropped"]
    assert {drop["reason"]: drop["count"] for drop in drops} == {
        f"{name}: gold_label is -": 1,
        f"{name}: gold_label is none of entailment, neutral, contradiction": 1,
        f"{name}: sentence2 is missing or blank": 1,
        f"{name}: pair_id is missing or blank": 1,
        f"{name}: not valid JSON": 1,
        f"{name}: not a JSON object": 1,
        f"{name}: not UTF-8": 1,
        "the same line again": 1,
    }
    chosen = {drop["reason"]: drop["failed"] for drop in drops}
    assert not chosen[f"{name}: gold_label is -"] and chosen[f"{name}: not valid JSON"]
    assert f"{root / name}:6" in {example for drop in drops for example in drop["examples"]}
    assert rows["sample_id"].tolist() == ["validate-1", "validate-11", "validate-12", "test-1"]
    assert "\u2028" in rows["premise"][2]


def test_too_much_damage_ends_the_program(tmp_path: Path) -> None:
    root = radnli(tmp_path / "root", FIRST, b"{")
    with pytest.raises(InputError, match="1 of 3 samples failed at 'pairs .*not valid JSON"):
        make(tmp_path / "out", "radnli", root)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    root = radnli(tmp_path / "root", FIRST)
    (root / NAMES[1]).unlink()
    with pytest.raises(InputError, match=NAMES[1]):
        layout("radnli").read(root, Request())


def test_a_pair_in_two_splits_is_recorded(tmp_path: Path) -> None:
    swapped = FIRST | {"sentence1": "Cardiomegaly.", "sentence2": FIRST["sentence1"]}
    flow, _ = make(tmp_path / "out", "radnli", radnli(tmp_path / "root", FIRST, swapped))
    assert flow["checks"][0]["passed"] is False
    assert flow["checks"][0]["detail"].startswith("1 pairs")


def test_other_splits_are_refused(tmp_path: Path) -> None:
    root = radnli(tmp_path / "root", FIRST)
    with pytest.raises(InputError, match="kind nli: expected official or auto"):
        make(tmp_path / "out", "radnli", root, splits={"method": "patients"})
    with pytest.raises(InputError, match="makes cohorts of kind nli, settings ask for pairs"):
        make(tmp_path / "out", "radnli", root, kind="pairs")
