"""What lies in an export: frontal radiographs with the ids that their headers give, and the rest.

Any tree of DICOM files, with or without extensions and DICOMDIR, or of PNG and JPEG pictures. What
is no radiograph of a chest from the front is set aside, each file for one reason. The standard's
words are those of PS3.3, C.8.1 and C.8.11 (modality, view, presentation intent).
"""

import os
import re
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pandas as pd

from cxr_files.drops import printable
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
from cxr_files.progress import rows_in_chunks
from cxr_files.reading import leads_out
from cxrflow.data.readers.study_time import from_dicom
from cxrflow.images.decode import PNG, is_dicom, is_picture, open_file
from cxrflow.images.decoded import MAX_BYTES, DecodeError

DICOM = ".dcm"  # suffix of an adopted image, beside .png and .jpg
NOTHING_KNOWN = "no DICOM, PNG or JPEG file"
TAGS = [
    *("PatientID", "AccessionNumber", "StudyInstanceUID", "SOPInstanceUID", "SOPClassUID"),
    *("Modality", "ImageType", "StudyDate", "StudyTime", "AcquisitionDate", "SeriesDate"),
    *("ViewPosition", "ViewCodeSequence", "PatientOrientation", "SeriesDescription"),
    *("BodyPartExamined", "NumberOfFrames", "PresentationIntentType", "Rows"),
]
RADIOGRAPHY = {"CR", "DX", "DR", "RG"}
CAPTURE = "1.2.840.10008.5.1.4.1.1.7"  # SOP classes of secondary captures begin so
REPORT = "1.2.840.10008.5.1.4.1.1.88"  # and those of structured reports
DIRECTORY = "1.2.840.10008.1.3.10"
# Without the preamble that PS3.10 asks for, a file begins with an element of group 8.
BARE = re.compile(rb"\x08\x00[\x00-\x18]\x00")
CHEST = re.compile(r"CHEST|THORA|TORAX|LUNG|PULMO|CXR|RIB|CARDI|HEART|MEDIAST|STERN", re.I)
FRONTAL = ("PA", "AP", "FRONTAL")
# A view by what positions, codes and descriptions call it; both of them is none.
SIDE = re.compile(r"\b(?:lat|lateral\w*|ll|rl|profile?|seitlich)\b", re.I)
FRONT = {
    "PA": re.compile(r"\b(?:p\.?a|postero-?anterior|posterior-anterior)\b", re.I),
    "AP": re.compile(r"\b(?:a\.?p|antero-?posterior|anterior-posterior|portable|bedside)\b", re.I),
    "FRONTAL": re.compile(r"\bfrontal\b", re.I),
}
CHUNK = 256


class ArchiveFile(NamedTuple):
    """A file of an export; null is what it does not say. ``aside``: why it is not adopted."""

    place: str
    suffix: str | None = None
    patient: str | None = None
    accession: str | None = None
    study_uid: str | None = None
    instance: str | None = None
    date: str | None = None
    time: str | None = None
    view: str | None = None
    raw: bool = False
    aside: str | None = None


def read_archive(root: Path, besides: Path, threads: int = 1) -> pd.DataFrame:
    """Read the headers of all files below ``root`` but those of ``besides``, the reports.

    Returns a row a file: the fields of :class:`ArchiveFile`, ``date`` as a time (NaT if not known).

    Raises:
        InputError: there is no folder, or none of its files is DICOM, PNG or JPEG.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; expected an export of DICOM files or pictures")

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: folder cannot be read ({error.strerror})")

    # Not Path.resolve, which refuses links in a circle; such a file is set aside by name.
    reports = os.path.realpath(besides)
    paths = [
        path.relative_to(root).as_posix()
        for path in walk_files(root, onerror=refuse)
        if not Path(os.path.realpath(path)).is_relative_to(reports)
    ]
    rows = rows_in_chunks(partial(_read_chunk, root), paths, CHUNK, threads, "file")
    files = pd.DataFrame(rows, columns=list(ArchiveFile._fields))
    texts = [name for name in files if name != "raw"]
    files = files.astype(dict.fromkeys(texts, "str"))
    if not files["suffix"].notna().any():
        raise InputError(f"{root}: none of its {len(files)} files is DICOM, PNG or JPEG")
    times = from_dicom(files["date"], files["time"])
    return _without_doubles(files.assign(date=times).drop(columns="time"))


def require_radiographs(files: pd.DataFrame, root: Path) -> pd.DataFrame:
    """Return the files that nothing speaks against.

    Raises:
        InputError: there is none; it says what there is.
    """
    radiographs = files[files["aside"].isna()]
    if radiographs.empty:
        counts = files["aside"].value_counts().head(6)
        said = ", ".join(f"{reason} ({count})" for reason, count in counts.items())
        raise InputError(f"{root}: no frontal radiograph of a chest; found {said}")
    return radiographs


def _without_doubles(files: pd.DataFrame) -> pd.DataFrame:
    """Set aside second copies of an instance, and raw images beside those made for reading."""
    aside = files["aside"].copy()
    again = files["instance"].notna() & aside.isna()
    again &= files[again]["instance"].duplicated().reindex(files.index, fill_value=False)
    aside[again] = "the same image again (SOPInstanceUID)"
    left = aside.isna() & files["study_uid"].notna()
    made = set(files.loc[left & ~files["raw"], "study_uid"])
    raw = left & files["raw"] & files["study_uid"].isin(made)
    aside[raw] = "image for processing, beside one for presentation"
    return files.assign(aside=aside.astype("str")).drop(columns="raw")


def _read_chunk(root: Path, places: Sequence[str]) -> list[ArchiveFile]:
    with warnings.catch_warnings():
        # pydicom warns about values that break the standard; archives are full of them.
        warnings.simplefilter("ignore")
        return [_read(root, place) for place in places]


def _read(root: Path, place: str) -> ArchiveFile:
    if printable(place) != place:
        return ArchiveFile(printable(place), aside="name is not UTF-8")
    if leads_out(place):
        return ArchiveFile(place, aside="path is too long")
    path = root / place
    try:
        with open_file(path) as file:
            start = file.read(132)
            file.seek(0)
            if not start:
                return ArchiveFile(place, aside="file is empty")
            if is_picture(start):
                suffix = ".png" if start.startswith(PNG) else ".jpg"
                view = view_of(path.stem.replace("_", " "))
                return ArchiveFile(place, suffix, view=view, aside=_odd(view))
            if path.name.upper() == "DICOMDIR":
                return ArchiveFile(place, aside="index of a disc (DICOMDIR)")
            if is_dicom(start, path) or BARE.match(start):
                return _radiograph(place, file)
            return ArchiveFile(place, aside=NOTHING_KNOWN)
    except (OSError, DecodeError) as error:
        return ArchiveFile(
            place, aside=f"cannot be read ({getattr(error, 'strerror', None) or error})"
        )
    except Exception as error:  # pydicom raises many kinds on damaged headers
        return ArchiveFile(place, DICOM, aside=f"damaged header ({type(error).__name__})")


def _radiograph(place: str, file: BinaryIO) -> ArchiveFile:
    import pydicom

    from cxrflow.images.dicom import check_inflated

    check_inflated(file, MAX_BYTES)
    header = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=TAGS, force=True)
    sop_class = str(header.get("SOPClassUID") or header.file_meta.get("MediaStorageSOPClassUID"))
    view = _view(header)
    date = _text(header, "StudyDate") or _text(header, "AcquisitionDate")
    return ArchiveFile(
        place,
        DICOM,
        patient=_text(header, "PatientID"),
        accession=_text(header, "AccessionNumber"),
        study_uid=_text(header, "StudyInstanceUID"),
        instance=_text(header, "SOPInstanceUID"),
        date=date or _text(header, "SeriesDate"),
        time=_text(header, "StudyTime") if header.get("StudyDate") else None,
        view=view,
        raw="PROCESSING" in str(header.get("PresentationIntentType") or "").upper(),
        aside=_no_radiograph(header, sop_class) or _odd(view),
    )


def _no_radiograph(header: Any, sop_class: str) -> str | None:
    """Why a file is no radiograph of a chest; None if it is one."""
    modality = (_text(header, "Modality") or "").upper()
    kinds = {str(each).upper() for each in _several(header.get("ImageType"))}
    part = _text(header, "BodyPartExamined")
    if sop_class == DIRECTORY:
        return "index of a disc (DICOMDIR)"
    if sop_class.startswith(REPORT) or modality == "SR":
        return "structured report"
    if sop_class == CAPTURE or sop_class.startswith(f"{CAPTURE}."):
        return "secondary capture"
    if "LOCALIZER" in kinds:
        return "localiser"
    if modality and modality not in RADIOGRAPHY:
        return f"modality {modality[:16]}"
    if "Rows" not in header:
        return "DICOM without an image"
    if part and not CHEST.search(part):
        return f"body part {part.upper()[:16]}"
    if int(header.get("NumberOfFrames") or 1) > 1:
        return "several frames in a file"
    return None


def _odd(view: str | None) -> str | None:
    return None if view is None or view in FRONTAL else f"{view.lower()} view"


def _view(header: Any) -> str | None:
    """The view by its position, code or description, or by how the patient was turned."""
    position = _text(header, "ViewPosition")
    if position:
        return view_of(position) or position.upper()[:16]
    codes = [str(code.get("CodeMeaning") or "") for code in header.get("ViewCodeSequence") or ()]
    for words in (*codes, _text(header, "SeriesDescription") or ""):
        if view := view_of(words):
            return view
    rows = [str(each).upper() for each in _several(header.get("PatientOrientation"))][:1]
    return {"A": "LATERAL", "P": "LATERAL", "L": "FRONTAL", "R": "FRONTAL"}.get("".join(rows))


def view_of(words: str) -> str | None:
    """``PA``, ``AP``, ``FRONTAL`` or ``LATERAL`` by what a view is called; None if unclear."""
    front = next((view for view, pattern in FRONT.items() if pattern.search(words)), None)
    side = "LATERAL" if SIDE.search(words) else None
    return None if front and side else front or side


def _text(header: Any, tag: str) -> str | None:
    return str(header.get(tag) or "").replace("\0", "").strip() or None


def _several(value: Any) -> Sequence[Any]:
    """The values of an element, of which there may be one or none."""
    if value is None or isinstance(value, str):
        return [value] if value else []
    return list(value)
