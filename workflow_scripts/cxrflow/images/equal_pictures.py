"""The same picture under several patients: a leak that no comparison of ids can see.

Folders that people fill hold a picture twice more often than one would think, under two patients
whom a split puts into two parts. Pictures are compared as they are stored, by their checksum; those
that are nearly equal (saved again, in another format) by :mod:`cxrflow.images.likeness`.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.drops import EXAMPLES
from cxr_files.errors import InputError
from cxr_files.ids import in_brackets, shown
from cxr_files.parquet import read_table
from cxrflow.images.likeness import Floats, pictures

log = logging.getLogger("cxrflow.images")

TABLES = ("pairs.parquet", "samples.parquet")


def patients_of(cohorts: Iterable[Path]) -> pd.DataFrame:
    """Return ``image_id``, ``patient`` and ``split`` of the rows of cohorts.

    A cohort whose table has no splits adds nothing. Where patients are not known the study is one.
    """
    tables = []
    for folder in cohorts:
        for path in filter(Path.is_file, (folder / name for name in TABLES)):
            table = read_table(path, ("image_id",))
            if {"subject_id", "split"} <= set(table):
                group = table.get("study_id", table.get("group_id", table["image_id"]))
                patient = table["subject_id"].fillna(group).fillna(table["image_id"])
                tables.append(table[["image_id", "split"]].assign(patient=patient))
    columns = ["image_id", "patient", "split"]
    rows = pd.concat(tables) if tables else pd.DataFrame(columns=columns)
    return rows.dropna(subset="image_id").drop_duplicates()[columns]


def equal_pictures(
    index: pd.DataFrame, likenesses: Floats, rows: pd.DataFrame, max_share: float, source: Path
) -> dict[str, Any]:
    """Count the pictures that several patients have, and those in two parts of a split.

    Args:
        index: ``image_id`` and ``sha256`` of the images of a store.
        shown: their likenesses [N, 3, 256].
        rows: ``image_id``, ``patient``, ``split``.
        max_share: of the images, above which equal pictures in two parts are an error.

    Raises:
        InputError: too many images have an equal one in another part.
    """
    place = pd.Series(np.arange(len(index)), index=index["image_id"])
    rows = rows[rows["image_id"].isin(place.index)]
    rows = rows.assign(place=place[rows["image_id"]].to_numpy())
    checksums = index["sha256"].to_numpy()
    numbers = pictures(checksums, likenesses)
    equal = _account(rows.assign(picture=checksums[rows["place"]]))
    near = _account(rows.assign(picture=numbers[rows["place"]]))
    images = max(1, rows["image_id"].nunique())
    if equal["in_two_parts"]:
        message = (
            f"{equal['in_two_parts']} of {images} images have an equal one of another patient in "
            f"another part of the split{in_brackets(equal['examples'])}"
        )
        if equal["in_two_parts"] > max_share * images:
            raise InputError(
                f"{source}: {message}; settings key 'max_shared_share' allows {max_share:g}; "
                "expected one patient id for the images of a patient"
            )
        log.warning("%s: %s", source, message)
    if near["of_several_patients"] > equal["of_several_patients"]:
        more = near["of_several_patients"] - equal["of_several_patients"]
        log.warning("%s: %d more images are nearly equal to one of another patient", source, more)
    return {"equal": equal, "nearly_equal": near}


def _account(rows: pd.DataFrame) -> dict[str, Any]:
    """Count the images whose picture several patients have, and those that are in two parts."""
    by_picture = rows.groupby("picture")
    several = rows[by_picture["patient"].transform("nunique") > 1]
    across_splits = several[several.groupby("picture")["split"].transform("nunique") > 1]
    return {
        "of_several_patients": int(several["image_id"].nunique()),
        "in_two_parts": int(across_splits["image_id"].nunique()),
        "examples": shown(across_splits["image_id"].drop_duplicates().head(EXAMPLES).tolist()),
    }
