"""Bad images of the hospital: counted and left out one by one, refused in one line when too many.

DICOM files are damaged one at a time; the cohort and the pixel store must keep everything that was
not damaged, unchanged. Unusual images that are well made are stored as they look.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
import pytest
from programs import absent, write_dicom
from tiny_hospital import Stages

from cxrflow.files import read_json

GENEROUS = {"max_failed_share": 0.5}


def frontal(stages: Stages, number: int = 0) -> tuple[str, Path]:
    """Image id and file of a row of the cohort."""
    row = pd.read_parquet(stages.cohort / "pairs.parquet").iloc[number]
    return row["image_id"], stages.data("mimic_cxr") / row["image_path"]


def damage_image(path: Path, damage: str) -> None:
    """Do to a DICOM file what its name says."""
    content = path.read_bytes()
    noise = np.random.default_rng(0).integers(0, 4000, (40, 48), dtype=np.uint16)
    if damage == "cut in the pixels":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "cut in the header":
        path.write_bytes(content[:200])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no DICOM":
        path.write_bytes(b"<html>403 Forbidden</html>" * 40)
    elif damage == "gone":
        path.unlink()
    elif damage == "one pixel":
        write_dicom(path, noise[:1, :1])
    elif damage == "one row":
        write_dicom(path, noise[:1])
    elif damage == "all pixels equal":
        write_dicom(path, np.full_like(noise, 7))
    else:
        header = pydicom.dcmread(path)
        if damage == "float pixels":
            header.FloatPixelData = np.full(header.Rows * header.Columns, np.nan, "<f4").tobytes()
        del header.PixelData
        header.save_as(path, enforce_file_format=True)


SEEN_BY_THE_COHORT = {
    "cut in the pixels": "pixel data is cut off or absent",
    "cut in the header": "header is cut off",
    "empty": "file is empty",
    "no DICOM": "not a DICOM file",
    "gone": "file not found",
    "no pixels": "pixel data is cut off or absent",
}
SEEN_BY_THE_STORE = {
    "cut in the pixels": "cut off",
    "cut in the header": "DICOM",
    "empty": "empty file",
    "no DICOM": "DICOM",
    "gone": "file not found",
    "no pixels": "DICOM without pixel data",
    "float pixels": "DICOM without pixel data",
    "one pixel": "blank image: all 1 x 1 pixels are equal",
    "one row": "image of 1 x 48 pixels is below min_side 16",
    "all pixels equal": "blank image",
}


@pytest.mark.parametrize("damage", SEEN_BY_THE_COHORT)
def test_damaged_dicom_is_counted_by_the_cohort(
    stages: Stages, tmp_path: Path, damage: str
) -> None:
    before = pd.read_parquet(stages.cohort / "pairs.parquet").set_index("study_id")
    image, path = frontal(stages)
    damage_image(path, damage)
    stages.make_cohort(tmp_path / "cohort", **GENEROUS).succeeds()
    flow = read_json(tmp_path / "cohort" / "flow.json")
    step = next(step for step in flow["steps"] if step["name"] == "image file usable")
    [drop] = [drop for drop in step["dropped"] if SEEN_BY_THE_COHORT[damage] in drop["reason"]]
    assert drop["count"] == 1 and drop["failed"]
    assert str(path).endswith(drop["examples"][0])
    after = pd.read_parquet(tmp_path / "cohort" / "pairs.parquet").set_index("study_id")
    others = before.index[before["image_id"] != image]
    pd.testing.assert_frame_equal(
        after.loc[others].drop(columns=["prior_study_id", "prior_image_id", "prior_image_path"]),
        before.loc[others].drop(columns=["prior_study_id", "prior_image_id", "prior_image_path"]),
    )


def test_too_many_damaged_images_end_the_cohort(stages: Stages, tmp_path: Path) -> None:
    for number in range(4):
        damage_image(frontal(stages, number)[1], "empty")
    end = stages.make_cohort(tmp_path / "cohort", max_failed_share=0.01)
    end.refuses(stages.data("mimic_cxr"), "4 of", "max_failed_share", "file is empty", ".dcm")
    assert absent(tmp_path / "cohort")


@pytest.mark.parametrize("damage", SEEN_BY_THE_STORE)
def test_damaged_dicom_is_counted_by_the_pixel_store(
    stages: Stages, tmp_path: Path, damage: str
) -> None:
    before = pd.read_parquet(stages.pixels / "index.parquet").set_index("image_id")["sha256"]
    image, path = frontal(stages)
    damage_image(path, damage)
    stages.make_pixels(tmp_path / "pixels", **GENEROUS).succeeds()
    content = read_json(tmp_path / "pixels" / "store.json")
    assert content["dropped"][0]["count"] == 1
    [failure] = content["failures"]
    assert failure["image_id"] == image and str(path).endswith(failure["path"])
    assert SEEN_BY_THE_STORE[damage] in failure["reason"]
    after = pd.read_parquet(tmp_path / "pixels" / "index.parquet").set_index("image_id")["sha256"]
    pd.testing.assert_series_equal(after, before.drop(image))


def test_too_many_damaged_images_end_the_store(stages: Stages, tmp_path: Path) -> None:
    _, path = frontal(stages)
    damage_image(path, "one pixel")
    end = stages.make_pixels(tmp_path / "pixels", max_failed_share=0.0, real=True)
    end.refuses("max_failed_share 0", "(1): blank image: all 1 x 1 pixels are equal", path.name)
    assert not (tmp_path / "pixels" / "store.json").exists()
    assert not list((tmp_path / "pixels").glob("*.partial"))


def stored(folder: Path, image: str) -> np.ndarray:
    from cxrflow.images.store import PixelStore

    store = PixelStore(folder)
    return store.read(store.rows([image]))[0]


def test_monochrome1_is_inverted_exactly_once(stages: Stages, tmp_path: Path) -> None:
    image, path = frontal(stages)
    pixels = np.random.default_rng(1).integers(0, 4000, (50, 44), dtype=np.uint16)
    write_dicom(path, pixels)
    stages.make_pixels(tmp_path / "bright", **GENEROUS).succeeds()
    write_dicom(path, pixels.max() - pixels + 5, "MONOCHROME1")
    stages.make_pixels(tmp_path / "dark", **GENEROUS).succeeds()
    index = pd.read_parquet(tmp_path / "dark" / "index.parquet").set_index("image_id")
    assert index.loc[image, "photometric"] == "MONOCHROME1"
    assert np.array_equal(stored(tmp_path / "bright", image), stored(tmp_path / "dark", image))


def test_colour_image_is_stored_as_its_luminance(stages: Stages, tmp_path: Path) -> None:
    image, path = frontal(stages)
    grey = np.random.default_rng(2).integers(0, 255, (50, 44), dtype=np.uint8)
    write_dicom(path, grey.astype(np.uint16))
    stages.make_pixels(tmp_path / "grey").succeeds()
    write_dicom(path, np.repeat(grey[..., None], 3, axis=2), "RGB")
    stages.make_pixels(tmp_path / "colour").succeeds()
    assert np.array_equal(stored(tmp_path / "grey", image), stored(tmp_path / "colour", image))
    # A colour radiograph is unusual, so the index says what it was.
    index = pd.read_parquet(tmp_path / "colour" / "index.parquet").set_index("image_id")
    assert index.loc[image, "photometric"] == "RGB"
