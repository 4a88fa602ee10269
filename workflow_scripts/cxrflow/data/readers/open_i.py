"""Open-I, the Indiana University chest X-ray collection: XML reports, PNG or DICOM images.

Reports are a folder ``ecgen-radiology/<n>.xml`` or the archive ``NLMCXR_reports.tgz`` as published.
Images are optional and lie anywhere under the root (``NLMCXR_png/``, ``<n>/`` for DICOM, Kaggle's
``images_normalized/``). The XML does not tell the view: it comes from ``indiana_projections.csv``
or the DICOM header, else it is unknown. Patients are not known: a report number is all there is.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from cxr_files.archives import TooLarge, read_file, tar_files
from cxr_files.csv_table import find_file, read_csv, require_root
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
from cxr_files.reading import below
from cxrflow.data.layouts import layout
from cxrflow.data.readers import dicom_headers
from cxrflow.data.readers.common_tables import Request, Tables, require_unique, shaped
from cxrflow.data.readers.open_i_terms import term_labels

LISTS = layout("open_i").lists["tables"]
REPORTS = ("ecgen-radiology", *LISTS["reports"])
_IMAGE_SUFFIXES = (".png", ".dcm", ".jpg", ".jpeg")


class OpenIReport(NamedTuple):
    """A report: its ``uId`` (``CXR<n>``) and the ids of its images.

    The text is read by ``cxrflow.reports``.

    ``terms``: the human index terms ("Opacity/lung/base"), none where they are not given.
    """

    study_id: str
    images: list[str]
    terms: list[str]


def read(root: Path, request: Request) -> Tables:
    """Read the reports and their index terms, and match the image files to them."""
    reports, damage = read_reports(require_root(root))
    images = pd.DataFrame(
        [(image, report.study_id) for report in reports for image in report.images],
        columns=["image_id", "study_id"],
        dtype="str",
    )
    studies = pd.DataFrame({"study_id": [report.study_id for report in reports]}, dtype="str")
    require_unique(studies, "study_id", root)
    require_unique(images, "image_id", root)
    table, notes, image_drops = _with_files(request.select(images), root, request)
    return Tables(
        source=root,
        studies=shaped("studies", studies),
        images=table,
        labels=_labels(reports),
        dropped={"studies": damage, "images": image_drops},
        notes=["Open-I does not name patients: every report counts as one", *notes],
    )


def read_reports(root: Path) -> tuple[list[OpenIReport], list[Drop]]:
    """Return all reports by number, and the files without one.

    Raises:
        InputError: no reports at ``root``, or the archive is damaged.
    """
    reports, broken = [], []
    for name, content in _files(root):
        try:
            reports.append(_parse(content))
        except (ElementTree.ParseError, ValueError, LookupError):  # an encoding nobody knows
            broken.append(name)
    if not reports and not broken:
        raise InputError(f"{root}: no report in {' or '.join(REPORTS)}; expected <n>.xml files")
    reports.sort(key=lambda report: _number(report.study_id))
    return reports, [Drop.of("report is not the XML of one report", broken, failed=True)]


def read_term_labels(root: Path) -> pd.DataFrame:
    """Return the labels that the index terms of the reports at ``root`` stand for.

    Raises:
        InputError: ``root`` holds no Open-I reports.
    """
    return _labels(read_reports(root)[0])


def _labels(reports: list[OpenIReport]) -> pd.DataFrame:
    return term_labels({report.study_id: report.terms for report in reports})


def _files(root: Path) -> Iterator[tuple[str, bytes]]:
    folder, archive = (below(root, name) for name in REPORTS)
    if folder.is_dir():
        for path in sorted(folder.glob("*.xml")):
            try:
                yield str(path), read_file(path)
            except (OSError, TooLarge):
                yield str(path), b""
        return
    if not archive.is_file():
        raise InputError(f"{root}: neither {REPORTS[0]}/ nor {REPORTS[1]} found")
    for member in tar_files(archive, ".xml"):
        yield f"{archive}:{member.name}", member.content


def _parse(content: bytes) -> OpenIReport:
    root = ElementTree.fromstring(content)
    identity = root.find(".//uId")
    study_id = (identity.get("id") or "").strip() if identity is not None else ""
    if not study_id:
        raise ValueError("no uId")
    images = [name for element in root.iter("parentImage") if (name := element.get("id"))]
    terms = [term for element in root.iter("major") if (term := (element.text or "").strip())]
    return OpenIReport(study_id, list(dict.fromkeys(images)), terms)


def _number(study_id: str) -> tuple[int, str, str]:
    digits = re.sub(r"\D", "", study_id).lstrip("0")
    return (len(digits), digits, study_id)  # Python makes no number of 5,000 digits


def image_key(name: str) -> str:
    """Return the part that image ids and file names share: ``1_IM-0001-4001``.

    Ids are ``CXR1_IM-…`` or, twice, ``CXR1_1_IM-…``; files end in ``.png``, ``.dcm``,
    ``.dcm.png``; the projection list leaves ``CXR`` out.
    """
    stem = name
    while stem.lower().endswith(_IMAGE_SUFFIXES):
        stem = stem[: stem.rindex(".")]
    return re.sub(r"^(\d+)_\1_", r"\1_", stem.removeprefix("CXR"))


def _with_files(
    images: pd.DataFrame, root: Path, request: Request
) -> tuple[pd.DataFrame, list[str], list[Drop]]:
    keys = images["image_id"].map(image_key)
    files = _image_files(root) if request.headers else {}
    table = shaped("images", images.assign(image_path=keys.map(files)))
    projections = find_file(root, *LISTS["views"])
    drops: list[Drop] = []
    if projections is not None:
        rows, drops = read_csv(projections, {"filename": "id", "projection": "id"})
        views = dict(zip(rows["filename"].map(image_key), rows["projection"], strict=True))
        table["view"] = keys.map(views).astype("str").str.upper()
    if not files:
        table["failure"] = "image files are not in the root"
        return table, [f"no image files under the root ({len(table)} named in reports)"], drops
    table["failure"] = table["image_path"].isna().map({True: "file not found", False: None})
    scanned = table.index[table["image_path"].str.endswith(".dcm").fillna(False)]
    if len(scanned):
        paths = table.loc[scanned, "image_path"].tolist()
        header = dicom_headers.scan(root, paths, request.threads).set_axis(scanned)
        table["view"] = table["view"].fillna(header["view"])
        for name in ("image_width", "image_height", "failure"):
            table.loc[scanned, name] = header[name]
    return table, [], drops


def _image_files(root: Path) -> dict[str, str]:
    """Return the path of each image file, relative to the root, by key; PNG before DICOM."""
    paths: dict[str, str] = {}
    for file in walk_files(root, skipped=frozenset(REPORTS[:1])):
        if file.suffix.lower() in _IMAGE_SUFFIXES:
            path, key = file.relative_to(root).as_posix(), image_key(file.name)
            earlier = paths.get(key)
            if earlier is None or earlier.lower().endswith(".dcm") > path.lower().endswith(".dcm"):
                paths[key] = path
    return paths
