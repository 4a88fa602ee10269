"""ReXGradient-160K: a JSON list of studies for each part, each with parallel lists of its images.

``metadata/<part>_metadata_view_position.json``, or ``<part>_metadata.json``, which may say no
views, name studies by patient, accession and UID. Image paths are from ``metadata/``:
``../deid_png/<PatientID>/…/<SOP>.png``, unpacked from ``deid_png.part00`` … (PNG of 16 bits). Views
are said in 22 ways; what says none (UNKNOWN, N/A, OTHER, blank) is no view here. Whether a
patient's dates were shifted by one amount is not published.
"""

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.atomic import read_json
from cxr_files.csv_table import find_file, require_root
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers import study_time
from cxrflow.data.readers.common_tables import Request, Tables, shaped

LISTS = layout("rexgradient").lists["tables"]
FOLDER, PACKED = "deid_png", "deid_png.part*"
VIEWS: Mapping[str, str | None] = {
    "POSTERO_ANTERIOR": "PA",
    "ANTERO_POSTERIOR": "AP",
    "LAT": "LATERAL",
    **dict.fromkeys(("UNKNOWN", "OTHER", "N/A", "NONE", ""), None),
}
_IDS = ("PatientID", "StudyInstanceUid")
DATES = "dates are taken as published; nothing says how those of a patient were shifted"


def read(root: Path, request: Request) -> Tables:
    """Read the lists of all parts that are there and, if asked, look for the image files."""
    if request.headers:
        _require_unpacked(require_root(root))
    studies: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    damage: dict[str, list[str]] = {}
    paths_by_part = {part: find_file(require_root(root), *names) for part, names in LISTS.items()}
    if not any(paths_by_part.values()):
        expected = " or ".join(names[0] for names in LISTS.values())
        raise InputError(f"{root}: {expected} not found; expected one of them at least")
    for part, path in paths_by_part.items():
        if path is None:
            continue
        for key, entry in entries(path).items():
            reason = wrong(entry)
            if reason is not None:
                damage.setdefault(f"{path.name}: {reason}", []).append(key)
                continue
            study = {"study_id": entry["StudyInstanceUid"], "subject_id": entry["PatientID"]}
            studies.append({**study, "date": str(entry.get("StudyDate") or ""), "split": part})
            views = entry.get("ImageViewPosition") or [None] * len(entry["ImagePath"])
            for place, view in zip(entry["ImagePath"], views, strict=True):
                word = str(view or "").strip().upper()
                images.append(
                    {
                        **study,
                        "image_id": Path(place).stem,
                        "image_path": posixpath.normpath(f"metadata/{place}"),
                        "view": VIEWS.get(word, word),
                    }
                )
    table = pd.DataFrame(studies, columns=["study_id", "subject_id", "date", "split"])
    times = study_time.from_dicom(table["date"], pd.Series("", index=table.index))
    table = table.assign(study_time=study_time.iso(times), order=study_time.order(times))
    columns = ["study_id", "subject_id", "image_id", "image_path", "view"]
    rows = pd.DataFrame(images, columns=columns).merge(
        table[["study_id", "study_time", "order"]], on="study_id", how="left"
    )
    unsaid = int(rows["view"].isna().sum())
    notes = [DATES]
    if unsaid:
        notes.append(f"{unsaid} of {len(rows)} images have no view in the lists")
    return Tables(
        source=root,
        studies=shaped("studies", table),
        images=request.images_of(root, request.select(rows)),
        splits=table[["subject_id", "split"]].drop_duplicates(),
        dropped={"studies": [Drop.of(why, keys, failed=True) for why, keys in damage.items()]},
        notes=notes,
        opened=request.headers,
    )


def entries(path: Path) -> dict[str, Any]:
    """The studies of a list by their names.

    Raises:
        InputError: it is no JSON object, or was cut off.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: is no JSON object; expected studies by name")
    return content


def wrong(entry: Any) -> str | None:
    """Why an entry is no study; None if it is one."""
    if not isinstance(entry, dict):
        return "the study is no object"
    for name in _IDS:
        if not isinstance(entry.get(name), str) or not entry[name].strip():
            return f"{name} is missing"
    paths, views = entry.get("ImagePath"), entry.get("ImageViewPosition")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        return "ImagePath is no list of paths"
    if views is not None and (not isinstance(views, list) or len(views) != len(paths)):
        return "ImageViewPosition is no list as long as ImagePath"
    return None


def _require_unpacked(root: Path) -> None:
    """Say how the archive is unpacked, if that was not done."""
    if not (root / FOLDER).is_dir() and any(root.glob(PACKED)):
        raise InputError(
            f"{root}: {PACKED} are not unpacked; expected the folder {FOLDER}/: type "
            f"`cat {PACKED} | tar --zstd -xf -` there"
        )
