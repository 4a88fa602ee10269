"""CheXTemporal: progression of findings between two images, in five directions, of three data sets.

``gold_progression_pairs.parquet`` is what radiologists say, ``silver_findings.parquet``, which may
be absent, what a language model reads in reports. A layout reads the rows of one parent data set;
those of others are counted, for the account of a cohort that joins several. The publisher's code
calls its words improving, stable, worsening, new and resolved. A finding of one pair may have
several rows with different answers. Images are named by paths, of CheXpert's without the part, and
lie in the parent data set, by whose order of time the cohort checks the pairs. No box is read.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import find_file, require_file
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.parquet import table_columns, table_rows
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, shaped, without

LISTS = layout("chextemporal_chexpert").lists["tables"]
SILVER, GOLD = "silver", "gold"
WORDS = {
    "improved": "improving",
    "stable": "stable",
    "worse": "worsening",
    "new": "new",
    "resolved": "resolved",
}
#: The name of an image in the parent data set, by the end of its path.
IMAGES = {
    "chexpert": r"(?:^|/)(patient\d+/study\d+/[^/]+)\.\w+$",
    "mimic": r"(?:^|/)([^/.]+)\.\w+$",
    "rexgradient": r"(?:^|/)([^/]+)\.png$",
}
#: What the columns of both files are called here.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    GOLD: {"disease_name": "finding", "img_path_curr": "current", "img_path_prev": "prior"},
    SILVER: {"finding": "finding", "parent_image_curr": "current", "parent_image_prev": "prior"},
}
_SHARED = ("dataset", "patient_id", "progression")


def _read(parent: str, root: Path, request: Request) -> Tables:
    """Read the labels on images of ``parent``. The images are not opened."""
    gold, *left_out = _labels(require_file(root, *LISTS[GOLD]), GOLD, parent)
    path = find_file(root, *LISTS[SILVER])
    silver, *lost = (gold.iloc[:0], [], []) if path is None else _labels(path, SILVER, parent)
    elsewhere, damage = (first + second for first, second in zip(left_out, lost, strict=True))
    patients = gold["subject_id"].drop_duplicates()
    return Tables(
        source=root,
        # Whom to hold out; the patients of silver labels are there to learn from.
        studies=shaped("studies", {"study_id": patients, "subject_id": patients}),
        progressions=shaped("progressions", pd.concat([gold, silver])),
        avoid=frozenset(patients),
        dropped={"progressions": damage, "elsewhere": elsewhere},
        opened=False,
    )


read_chexpert = partial(_read, "chexpert")
read_mimic = partial(_read, "mimic")
read_rexgradient = partial(_read, "rexgradient")


def _labels(path: Path, quality: str, parent: str) -> tuple[pd.DataFrame, list[Drop], list[Drop]]:
    """Return a row an answer, those of other data sets, and damage.

    Of other data sets the same is said whatever the parent, so that a joined account can tell what
    none of its cohorts has.
    """
    rows = _columns(path, (*_SHARED, *COLUMNS[quality])).rename(columns=COLUMNS[quality])
    rows = rows.apply(lambda column: column.astype("str").str.strip().replace("", pd.NA))
    others = [name for name in IMAGES if name != parent]
    of_others = {f"{path.name}: on images of {name}": rows["dataset"] == name for name in others}
    rows, foreign_drops = without(rows, rows["current"], of_others, failed=False)
    unknown = {f"{path.name}: dataset is none of {', '.join(IMAGES)}": rows["dataset"] != parent}
    rows, unknown_drops = without(rows, rows["current"], unknown)
    images = {name: rows[name].str.extract(IMAGES[parent])[0] for name in ("current", "prior")}
    label = rows["progression"].str.lower().map(WORDS)
    tests = {
        "patient_id or finding is blank": rows[["patient_id", "finding"]].isna().any(axis=1),
        f"progression is none of {', '.join(WORDS)}": label.isna(),
        "a path names no image": images["current"].isna() | images["prior"].isna(),
    }
    tests = {f"{path.name}: {reason}": wrong for reason, wrong in tests.items()}
    rows, damage = without(rows, rows["current"], tests)
    columns = {
        "image_id": images["current"],
        "prior_image_id": images["prior"],
        "subject_id": rows["patient_id"].str.replace(r"^p(?=\d)", "", regex=True),
        "finding": rows["finding"].str.title(),
        "label": label,
        "quality": quality,
    }
    return pd.DataFrame(columns, index=rows.index), foreign_drops + unknown_drops, damage


def _columns(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read some columns; the free texts beside them are the greater part of the file."""
    missing = sorted({*columns} - {*table_columns(path)})
    if missing:
        raise InputError(f"{path}: column '{missing[0]}' is missing; expected {', '.join(columns)}")
    return pd.DataFrame(table_rows(path, columns), columns=[*columns])
