"""A hospital's own folder of radiographs and reports, which any can fill.

``studies.csv`` (``study_id``, ``patient_id``), ``reports/<study_id>.txt`` with FINDINGS and
IMPRESSION, and ``images/<study_id>_<n>.png`` (or .jpg, .jpeg, .dcm), as many as a study has. A
column ``body_part`` names parts, where there are several.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from cxrflow.csv_table import Kind, read_csv, require_file, require_root
from cxrflow.data.tables import Request, Tables, drop_repeats, require_unique, shaped
from cxrflow.drops import Drop
from cxrflow.errors import InputError

STUDIES = "studies.csv"
SUFFIXES = (".png", ".jpg", ".jpeg", ".dcm")


def read(root: Path, request: Request) -> Tables:
    """Read the list of studies and the names of the images."""
    return read_folder(root, request, {}, {"body_part": "text"})


def read_folder(
    root: Path, request: Request, columns: Mapping[str, Kind], optional: Mapping[str, Kind]
) -> Tables:
    """The same, with these columns beside those of every folder."""
    path = require_file(require_root(root), STUDIES)
    rows, damage = read_csv(path, {"study_id": "id", "patient_id": "id", **columns}, optional)
    rows, repeats = drop_repeats(rows, "study_id")
    require_unique(rows, "study_id", path)
    images, strange = _images(root)
    if request.images is not None:
        images = images[images["image_id"].isin(request.images)].reset_index(drop=True)
    owner = rows.set_index("study_id")
    table = shaped(
        "images",
        {
            "image_id": images["image_id"],
            "study_id": images["study_id"],
            "subject_id": images["study_id"].map(owner["patient_id"]),
            "image_path": images["path"],
            "subgroup": images["study_id"].map(owner["body_part"]),
        },
    )
    empty = images["bytes"].eq("0")
    table["failure"] = pd.Series("file is empty", index=table.index).where(empty)
    return Tables(
        source=root,
        studies=shaped("studies", {"study_id": rows["study_id"], "subject_id": rows["patient_id"]}),
        images=table,
        dropped={"studies": damage + repeats, "images": strange},
    )


def _images(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Every image file, its study by name, its size; files that are named otherwise, counted."""
    folder = root / "images"
    if not folder.is_dir():
        raise InputError(f"{folder}: folder not found; expected images/<study_id>_<n>.png")
    found, strange = [], []
    for file in sorted(folder.iterdir()):
        study, _, number = file.stem.rpartition("_")
        if file.name.startswith("."):
            continue
        if not (study and number.isdigit() and file.suffix.lower() in SUFFIXES):
            strange.append(file.name)
            continue
        found.append((file.stem, study, f"images/{file.name}", str(file.stat().st_size)))
    images = pd.DataFrame(found, columns=["image_id", "study_id", "path", "bytes"], dtype="str")
    reason = f"not named <study_id>_<n> with {', '.join(SUFFIXES)}"
    return images, [Drop.of(reason, strange, failed=True)] if strange else []
