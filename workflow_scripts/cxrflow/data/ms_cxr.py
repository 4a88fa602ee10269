"""MS-CXR: phrases and boxes on MIMIC-CXR images, CSV v1.0.0 and v1.1.0 (BioViL §3.1).

One row a box; rows with the same image, category and phrase are one sample whose region is the
union of its boxes. Patient and study stand only in ``path``. Boxes are x, y (top left), width and
height in pixels of the original image.
"""

from pathlib import Path

from cxrflow.csv_table import read_csv, require_file, require_root
from cxrflow.data.tables import Request, Tables, drop_repeats, require_unique, shaped
from cxrflow.drops import Drop

_IDS = r"p(?P<subject_id>\d+)/s(?P<study_id>\d+)/[^/]+$"


def read(root: Path, request: Request) -> Tables:
    """Read the CSV; the images lie in MIMIC-CXR's root and are not looked at here."""
    path = require_file(
        require_root(root),
        "MS_CXR_Local_Alignment_v1.1.0.csv",
        "MS_CXR_Local_Alignment_v1.0.0.csv",
    )
    rows, damage = read_csv(
        path,
        {
            **{"dicom_id": "id", "category_name": "id", "label_text": "id", "path": "id"},
            **{"x": "value", "y": "value", "w": "value", "h": "value"},
            **{"image_width": "value", "image_height": "value"},
        },
        {"split": "text"},
    )
    rows, repeats = drop_repeats(rows, "dicom_id")
    flat = (rows["w"] <= 0) | (rows["h"] <= 0)
    damage += [Drop.of(f"{path.name}: box without area", rows.loc[flat, "dicom_id"], failed=True)]
    rows = rows[~flat]
    ids = rows["path"].str.extract(_IDS)
    lost = ids["subject_id"].isna()
    damage += [
        Drop.of(f"{path.name}: path names no patient", rows.loc[lost, "dicom_id"], failed=True)
    ]
    rows = rows[~lost].join(ids[~lost]).reset_index(drop=True)
    columns = ["dicom_id", "study_id", "subject_id", "path", "image_width", "image_height"]
    images = rows[columns].drop_duplicates().reset_index(drop=True)
    require_unique(images, "dicom_id", path)
    studies = images[["study_id", "subject_id"]].drop_duplicates()
    splits = rows[["subject_id", "split"]].dropna().drop_duplicates().reset_index(drop=True)
    return Tables(
        source=root,
        studies=shaped(
            "studies", {"study_id": studies["study_id"], "subject_id": studies["subject_id"]}
        ),
        images=shaped(
            "images",
            {
                "image_id": images["dicom_id"],
                "study_id": images["study_id"],
                "subject_id": images["subject_id"],
                "image_path": images["path"],
                "image_width": images["image_width"],
                "image_height": images["image_height"],
            },
        ),
        boxes=shaped(
            "boxes",
            {
                "image_id": rows["dicom_id"],
                "category": rows["category_name"],
                "phrase": rows["label_text"],
                **{side: rows[side] for side in "xywh"},
            },
        ),
        splits=splits if len(splits) else None,
        dropped={"boxes": [drop for drop in damage + repeats if drop.count]},
        opened=False,
    )
