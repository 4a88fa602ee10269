"""The same picture under several patients: a leak that no comparison of ids can see.

Folders that people fill hold a picture twice more often than one would think, under two patients
whom a split puts into two parts. Pictures are compared as they are stored, by their checksum; those
that are nearly equal (saved again, in another format) by a difference hash of 64 bits, and then
pixel by pixel. A difference hash says where an image gets brighter from left to right (Krawetz
2013).
"""

import logging
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cxr_files.drops import EXAMPLES
from cxr_files.errors import InputError
from cxr_files.parquet import read_table

log = logging.getLogger("cxrflow.images")

TABLES = ("pairs.parquet", "samples.parquet")
# In 600 radiographs at 128 pixels a picture and its JPEG of quality 80 differ by two bits of the
# hash at most, and by 0.8 grey levels on average.
BITS, LEVELS = 2, 2.0


class Store(Protocol):
    """The parts of a pixel store that are read."""

    index: pd.DataFrame

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]: ...


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
    store: Store, rows: pd.DataFrame, max_share: float, source: Path
) -> dict[str, Any]:
    """Count the pictures that several patients have, and those in two parts of a split.

    Args:
        rows: ``image_id``, ``patient``, ``split``.
        max_share: of the images, above which equal pictures in two parts are an error.

    Raises:
        InputError: too many images have an equal one in another part.
    """
    place = pd.Series(np.arange(len(store.index)), index=store.index["image_id"])
    rows = rows[rows["image_id"].isin(place.index)]
    rows = rows.assign(place=place[rows["image_id"]].to_numpy())
    checksums = store.index["sha256"].to_numpy()
    pictures = _nearly_equal(store, np.unique(rows["place"].to_numpy()))
    equal = _account(rows.assign(picture=checksums[rows["place"]]))
    near = _account(rows.assign(picture=pictures[rows["place"]]))
    images = max(1, rows["image_id"].nunique())
    if equal["in_two_parts"]:
        message = (
            f"{equal['in_two_parts']} of {images} images have an equal one of another patient in "
            f"another part of the split ({', '.join(equal['examples'])})"
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
    apart = several[several.groupby("picture")["split"].transform("nunique") > 1]
    return {
        "of_several_patients": int(several["image_id"].nunique()),
        "in_two_parts": int(apart["image_id"].nunique()),
        "examples": apart["image_id"].drop_duplicates().head(EXAMPLES).tolist(),
    }


def _nearly_equal(store: Store, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each place of the store; equal numbers are (nearly) equal pictures."""
    hashes = {int(place): difference_hash(store.read(np.array([place]))[0]) for place in places}
    edges: list[tuple[int, int]] = []
    # Hashes that differ in two bits agree in one of three bands at least.
    for band in range(0, 64, 22):
        by_band: dict[int, list[int]] = {}
        for place, value in hashes.items():
            by_band.setdefault(value >> band & (1 << 22) - 1, []).append(place)
        for alike in by_band.values():
            for one, other in combinations(alike, 2):
                if (hashes[one] ^ hashes[other]).bit_count() <= BITS:
                    first, second = store.read(np.array([one, other])).astype(np.float64)
                    if np.abs(first - second).mean() < LEVELS:
                        edges.append((one, other))
    size = len(store.index)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(len(edges)), (ends[0], ends[1])), shape=(size, size))
    pictures: NDArray[np.int64] = connected_components(graph, directed=False)[1]
    return pictures


def difference_hash(image: NDArray[np.uint8]) -> int:
    """Return the 64 bits that say where an image [H, W], at 8 x 9 cells, gets brighter."""
    cells = np.asarray(Image.fromarray(image).resize((9, 8), Image.Resampling.BOX))
    return int.from_bytes(np.packbits(cells[:, 1:] > cells[:, :-1]).tobytes(), "big")
