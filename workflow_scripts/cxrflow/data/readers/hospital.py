"""A hospital's own folder of radiographs and reports, which any can fill.

``studies.csv`` (``study_id``, ``patient_id``), ``reports/<study_id>.txt`` with FINDINGS and
IMPRESSION, and ``images/<study_id>_<n>.png`` (or .jpg, .jpeg, .dcm), as many as a study has. A
column ``body_part`` names parts, where there are several. A folder of bones must have it: ConVIRT
(section 4.1) learns from 48,000 pairs of the Rhode Island Hospital system, which are not public,
and a hospital puts its own there.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from cxrflow.data.readers.common_tables import Request, Tables, read_once, shaped
from cxrflow.errors import InputError
from cxrflow.files.csv_table import Kind, require_file, require_root
from cxrflow.files.drops import Drop

STUDIES = "studies.csv"
SUFFIXES = (".png", ".jpg", ".jpeg", ".dcm")


def read(root: Path, request: Request) -> Tables:
    """Read the list of studies and the names of the images."""
    return _read(root, request, {}, {"body_part": "text"})


def read_bones(root: Path, request: Request) -> Tables:
    """Read the same of bone radiographs, of which each study has a body part."""
    return _read(root, request, {"body_part": "text"}, {})


def _read(
    root: Path, request: Request, columns: Mapping[str, Kind], optional: Mapping[str, Kind]
) -> Tables:
    """Read a folder whose list has further ``columns`` and ``optional`` ones."""
    path = require_file(require_root(root), STUDIES)
    ids: dict[str, Kind] = {"study_id": "id", "patient_id": "id"}
    rows, damage = read_once(path, {**ids, **columns}, "study_id", optional)
    rows = rows.rename(columns={"patient_id": "subject_id", "body_part": "subgroup"})
    images, strange = _images(root)
    images = request.select(images).join(rows.set_index("study_id"), on="study_id")
    empty = images["bytes"].eq("0")
    images["failure"] = pd.Series("file is empty", index=images.index).where(empty)
    return Tables(
        source=root,
        studies=shaped("studies", rows),
        images=shaped("images", images),
        dropped={"studies": damage, "images": strange},
    )


def _images(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Return image, study, path and size of each file, and count files of other names."""
    folder = root / "images"
    if not folder.is_dir():
        raise InputError(f"{folder}: folder not found; expected images/<study_id>_<n>.png")
    files, strange = [], []
    for file in sorted(folder.iterdir()):
        study, _, number = file.stem.rpartition("_")
        if file.name.startswith("."):
            continue
        if not (study and number.isdigit() and file.suffix.lower() in SUFFIXES):
            strange.append(file.name)
            continue
        files.append((file.stem, study, f"images/{file.name}", str(file.stat().st_size)))
    columns = ["image_id", "study_id", "image_path", "bytes"]
    reason = f"not named <study_id>_<n> with {', '.join(SUFFIXES)}"
    images = pd.DataFrame(files, columns=columns, dtype="str")
    return images, [Drop.of(reason, strange, failed=True)]
