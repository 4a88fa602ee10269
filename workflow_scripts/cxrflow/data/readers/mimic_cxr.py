"""MIMIC-CXR v2, DICOM edition: lists of records and studies, DICOM tree, report texts.

``cxr-record-list.csv[.gz]`` has one row an image and ``cxr-study-list.csv[.gz]`` one a report;
neither holds view or date, which come from the DICOM headers.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, require_file, require_root
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers import dicom_headers, study_time
from cxrflow.data.readers.common_tables import Request, Tables, read_once, shaped

LISTS = layout("mimic_cxr").lists["tables"]


def read(root: Path, request: Request) -> Tables:
    """Read the lists and the headers of the requested images."""
    require_root(root)
    lists, prefix = (root, "") if (root / "files").is_dir() else _inside_files(root)
    record_list = require_file(lists, LISTS["images"][0])
    columns: dict[str, Kind] = {"subject_id": "bare", "study_id": "bare", "path": "path"}
    images, image_damage = read_once(record_list, {**columns, "dicom_id": "id"}, "dicom_id")
    study_list = require_file(lists, LISTS["studies"][0])
    studies, study_damage = read_once(study_list, columns, "study_id")
    _require_same_patient(images, studies, record_list)
    images["path"] = images["path"].str.removeprefix(prefix)
    images = images.rename(columns={"dicom_id": "image_id", "path": "image_path"})
    table = shaped("images", request.select(images))
    if request.headers:
        table = _with_headers(table, root, request.threads)
    return Tables(
        source=root,
        studies=shaped("studies", studies),
        images=table,
        dropped={"studies": study_damage, "images": image_damage},
        opened=request.headers,
    )


def _inside_files(root: Path) -> tuple[Path, str]:
    """Return the folder of the lists and the prefix of paths if the root is ``files/`` itself."""
    if root.name != "files":
        return root, ""
    lists = root if (root / LISTS["images"][0]).exists() else root.parent
    return lists, "files/"


def _require_same_patient(images: pd.DataFrame, studies: pd.DataFrame, path: Path) -> None:
    owner = images["study_id"].map(studies.set_index("study_id")["subject_id"])
    wrong = images.loc[owner.notna() & (owner != images["subject_id"]), "study_id"].unique()
    if len(wrong):
        raise InputError(
            f"{path}: subject_id of {len(wrong)} study_id(s) differs from cxr-study-list "
            f"({', '.join(wrong[:5])}); expected one patient a study"
        )


def _with_headers(images: pd.DataFrame, root: Path, threads: int) -> pd.DataFrame:
    header = dicom_headers.scan(root, images["image_path"].tolist(), threads)
    times = study_time.from_dicom(header["study_date"], header["study_time"])
    return images.assign(
        view=header["view"],
        study_time=study_time.iso(times),
        order=study_time.order(times),
        image_width=header["image_width"],
        image_height=header["image_height"],
        failure=header["failure"],
    )
