"""MS-CXR: phrases and boxes on MIMIC-CXR images, CSV v1.0.0 and v1.1.0 (BioViL §3.1).

One row a box; rows with the same image, category and phrase are one sample whose region is the
union of its boxes. Patient and study stand only in ``path``. Boxes are x, y (top left), width and
height in pixels of the original image.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import read_csv, require_file
from cxrflow.data.layouts import layout
from cxrflow.data.readers.boxes import whole_regions
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    drop_repeats,
    require_unique,
    shaped,
)

LISTS = layout("ms_cxr").lists["tables"]
_IDS = r"p(?P<subject_id>\d+)/s(?P<study_id>\d+)/[^/]+$"
_REGION = ("dicom_id", "category_name", "label_text")
_NAMES = {
    **{"dicom_id": "image_id", "path": "image_path"},
    **{"category_name": "category", "label_text": "phrase"},
}


def read(root: Path, request: Request) -> Tables:
    """Read the CSV. The images are in MIMIC-CXR's root and are not opened."""
    path = require_file(root, *LISTS["boxes"])
    rows, damage = read_csv(
        path,
        {
            **{"dicom_id": "id", "category_name": "id", "label_text": "id", "path": "id"},
            **{"x": "value", "y": "value", "w": "value", "h": "value"},
            **{"image_width": "value", "image_height": "value"},
        },
        {"split": "text"},
        together=_REGION,
    )
    rows, repeats = drop_repeats(rows, "dicom_id")
    rows = rows.join(rows["path"].str.extract(_IDS))
    reasons = pd.Series(pd.NA, index=rows.index, dtype="str")
    for wrong_rows, reason in (
        ((rows["w"] <= 0) | (rows["h"] <= 0), "box without area"),
        (rows["subject_id"].isna(), "path names no patient"),
    ):
        reasons = reasons.mask(wrong_rows, f"{path.name}: {reason}")
    rows, wrong = whole_regions(rows, [*_REGION], reasons, rows["dicom_id"])
    columns = ["dicom_id", "study_id", "subject_id", "path", "image_width", "image_height"]
    images = rows[columns].drop_duplicates()
    require_unique(images, "dicom_id", path)
    splits = rows[["subject_id", "split"]].dropna().drop_duplicates().reset_index(drop=True)
    return Tables(
        source=root,
        studies=shaped("studies", rows[["study_id", "subject_id"]].drop_duplicates()),
        images=shaped("images", images.rename(columns=_NAMES)),
        boxes=shaped("boxes", rows.rename(columns=_NAMES)),
        splits=splits if len(splits) else None,
        dropped={"boxes": [*damage, *wrong, *repeats]},
        opened=False,
    )
