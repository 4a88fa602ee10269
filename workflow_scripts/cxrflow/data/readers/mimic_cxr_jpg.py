"""MIMIC-CXR-JPG v2.0.0 and v2.1.0: metadata, split and label tables, JPG tree; no reports.

The tables keep ``2.0.0`` in their names inside the 2.1.0 release. Labels are one row a study.
"""

from pathlib import Path
from typing import Literal

import pandas as pd

from cxr_files.csv_table import Kind, bare_ids, find_file, read_csv, require_file
from cxr_files.drops import Drop
from cxrflow.data.layouts import layout
from cxrflow.data.readers import study_time
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    read_once,
    require_labels,
    require_unique,
    shaped,
)

CLASSES = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Enlarged Cardiomediastinum"),
    *("Fracture", "Lung Lesion", "Lung Opacity", "No Finding", "Pleural Effusion"),
    *("Pleural Other", "Pneumonia", "Pneumothorax", "Support Devices"),
)
LISTS = layout("mimic_cxr_jpg").lists
LABEL_TABLES = layout("mimic_cxr_jpg").label_tables


def read(root: Path, request: Request) -> Tables:
    """Read the tables; the JPG files themselves are not opened."""
    metadata = require_file(root, *LISTS["tables"]["images"])
    rows, damage = read_once(
        metadata,
        {
            **{"dicom_id": "path", "subject_id": "path", "study_id": "path"},
            "ViewPosition": "text",
            **{"Rows": "number", "Columns": "number", "StudyDate": "text", "StudyTime": "text"},
        },
        "dicom_id",
    )
    rows["subject_id"], rows["study_id"] = bare_ids(rows["subject_id"]), bare_ids(rows["study_id"])
    owners = rows[["study_id", "subject_id"]].drop_duplicates()
    require_unique(owners, "study_id", metadata)
    names = {"dicom_id": "image_id", "Columns": "image_width", "Rows": "image_height"}
    rows = request.select(rows.rename(columns=names))
    times = study_time.from_numbers(rows["StudyDate"], rows["StudyTime"])
    prefix = "" if root.name == "files" else "files/"
    folder = prefix + "p" + rows["subject_id"].str.slice(0, 2) + "/p" + rows["subject_id"]
    rows = rows.assign(
        image_path=folder + "/s" + rows["study_id"] + "/" + rows["image_id"] + ".jpg",
        view=rows["ViewPosition"].str.strip(),
        study_time=study_time.iso(times),
        order=study_time.order(times),
    )
    labels, notes = pd.DataFrame(), []
    lost: list[Drop] = []
    if request.labels and find_file(root, *LISTS["labels"]["chexpert"]) is not None:
        labels, lost = read_labels(root, "chexpert")
    elif request.labels:
        notes = [f"{LABEL_TABLES['chexpert']} is not in the root: no labels"]
    return Tables(
        source=root,
        studies=shaped("studies", owners),
        images=shaped("images", rows),
        labels=labels,
        splits=read_split(root),
        dropped={"images": damage, "labels": lost},
        notes=notes,
        opened=False,
    )


def read_labels(
    root: Path, table: Literal["chexpert", "negbio", "radiologist"]
) -> tuple[pd.DataFrame, list[Drop]]:
    """Read a label table: ``study_id`` and 14 columns of 1, 0, −1 or NaN (not mentioned).

    The radiologist's table (2.1.0) calls Lung Opacity ``Airspace Opacity``; it comes back as Lung
    Opacity.
    """
    path = require_file(root, LABEL_TABLES[table])
    published = {
        name: "Airspace Opacity" if (table, name) == ("radiologist", "Lung Opacity") else name
        for name in CLASSES
    }
    columns: dict[str, Kind] = {"study_id": "bare", **dict.fromkeys(published.values(), "number")}
    frame, drops = read_once(path, columns, "study_id")
    frame = frame.rename(columns={old: new for new, old in published.items()})
    require_labels(frame, CLASSES, path)
    return frame.reset_index(drop=True), drops


def read_split(root: Path) -> pd.DataFrame | None:
    """Read the official split: ``subject_id``, ``split``. None without the file.

    The table's column order is dicom, study, subject, split; it is read by name. A patient in two
    splits comes back twice and is refused where the split is used.
    """
    path = find_file(root, *LISTS["tables"]["split"])
    if path is None:
        return None
    rows, _ = read_csv(path, {"subject_id": "bare", "split": "id"})
    return rows.drop_duplicates().reset_index(drop=True)
