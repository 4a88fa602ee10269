"""The same picture under several patients: counted, named, refused above a share."""

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cxr_files.errors import InputError
from cxrflow.images.store_pixels import main
from cxrflow.show.page.cohorts import shared_picture_notes

PATIENTS, COPIES = 40, 4


def picture(seed: int) -> Image.Image:
    """A smooth picture, as radiographs are, unlike those of other seeds."""
    small = np.random.default_rng(seed).integers(0, 255, (6, 6), dtype=np.uint8)
    return Image.fromarray(small).resize((64, 64), Image.Resampling.BICUBIC)


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    """Patients with a picture each; four pictures are others' again, two of them in JPEG."""
    rows = []
    (tmp_path / "images").mkdir()
    for n in range(PATIENTS):
        copied = n >= PATIENTS - COPIES
        name = f"images/{n}.jpg" if copied and n % 2 else f"images/{n}.png"
        picture(n - PATIENTS + COPIES if copied else n).save(tmp_path / name, quality=95)
        split = "test" if copied else "train"
        rows.append((f"p{n}", f"s{n}", f"i{n}", name, split))
    table = pd.DataFrame(
        rows, columns=["subject_id", "study_id", "image_id", "image_path", "split"]
    )
    table.to_parquet(tmp_path / "pairs.parquet")
    table[["image_id", "image_path"]].to_parquet(tmp_path / "images.parquet")
    return tmp_path


def store(cohort: Path, **settings: float) -> dict:
    main(
        [
            *("--root", str(cohort), "--images", str(cohort / "images.parquet")),
            *("--geometry", "square32", "--output", str(cohort / "store")),
            *("--settings", json.dumps(settings)),
        ]
    )
    return json.loads((cohort / "store/store.json").read_text())


def test_equal_pictures_of_several_patients_are_counted(
    cohort: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "cxrflow.images"):
        counts = store(cohort, max_shared_share=0.2)["shared_pictures"]
    assert counts["equal"]["of_several_patients"] == counts["equal"]["in_two_parts"] == COPIES
    assert set(counts["equal"]["examples"]) == {"i0", "i2", "i36", "i38"}
    assert counts["nearly_equal"]["of_several_patients"] == 2 * COPIES
    assert "4 of 40 images have an equal one of another patient" in caplog.text
    assert "4 more images are nearly equal" in caplog.text
    notes = shared_picture_notes(counts)
    assert notes[0].startswith("4 images are equal to one of another patient, 4 of them")


def test_too_many_are_refused(cohort: Path) -> None:
    with pytest.raises(InputError, match=r"4 of 40 images have an equal one.*allows 0\.05"):
        store(cohort)


def test_one_patients_repeated_picture_is_no_leak(cohort: Path) -> None:
    table = pd.read_parquet(cohort / "pairs.parquet").assign(subject_id="p", split="train")
    table.to_parquet(cohort / "pairs.parquet")
    counts = store(cohort)["shared_pictures"]
    assert counts["equal"] == {"of_several_patients": 0, "in_two_parts": 0, "examples": []}
    assert shared_picture_notes(counts) == [] == shared_picture_notes(None)
