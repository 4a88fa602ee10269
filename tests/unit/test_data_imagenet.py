"""ImageNet's layout: what the hospital writes of it is read back, and damage is said."""

from pathlib import Path

import numpy as np
import pytest
from cohort_fixtures import cohort
from PIL import Image

from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.imagenet import META, TRUTH, read
from cxrflow.errors import InputError
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.imagenet import CLASSES, LEAST, MOST, picture, wnid, write_imagenet

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
    (root / META).write_bytes(whole[:200])
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
