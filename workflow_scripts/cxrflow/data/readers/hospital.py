"""A hospital's own folder of radiographs and reports, which any can fill.

``studies.csv`` (``study_id``, ``patient_id``), ``reports/<study_id>.txt`` with FINDINGS and
IMPRESSION, and ``images/<study_id>_<n>.png`` (or .jpg, .jpeg, .dcm), as many as a study has.

Columns that may be there: ``date``, by which a patient's studies are in order; ``view``, one for
all images of a study, or one for each, as ``PA;LATERAL``; ``body_part``, where there are several.
A folder of bones must have the last: ConVIRT (section 4.1) learns from 48,000 pairs of the Rhode
Island Hospital system, which are not public, and a hospital puts its own there.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from cxr_files.atomic import file_digest
from cxr_files.csv_table import Kind, require_file
from cxr_files.drops import EXAMPLES, Drop, printable
from cxr_files.errors import InputError
from cxr_files.reading import below
from cxrflow.data.layouts import layout
from cxrflow.data.readers import study_time
from cxrflow.data.readers.common_tables import Request, Tables, read_once, shaped

log = logging.getLogger("cxrflow")

LISTS = layout("hospital").lists["tables"]  # as of all folders of this form
ADVICE = (
    "; columns are parted by commas; `cxrflow adopt EXPORT REPORTS` makes such a folder from an "
    "archive's export and a table of reports"
)
_END = 4096  # bytes; headers of DICOM files differ there, though files have one size
SUFFIXES = (".png", ".jpg", ".jpeg", ".dcm")


def read(root: Path, request: Request) -> Tables:
    """Read the list of studies and the names of the images."""
    return _read(root, request, {}, {"body_part": "text", "date": "text", "view": "text"})


def read_bones(root: Path, request: Request) -> Tables:
    """Read the same of bone radiographs, of which each study has a body part."""
    return _read(root, request, {"body_part": "text"}, {})


def _read(
    root: Path, request: Request, columns: Mapping[str, Kind], optional: Mapping[str, Kind]
) -> Tables:
    """Read a folder whose list has further ``columns`` and ``optional`` ones."""
    ids: dict[str, Kind] = {"study_id": "id", "patient_id": "id"}
    try:
        path = require_file(root, *LISTS["studies"])
        rows, damage = read_once(path, {**ids, **columns}, "study_id", optional)
    except InputError as error:
        raise InputError(f"{error}{ADVICE if root.is_dir() else ''}") from None
    rows = rows.rename(columns={"patient_id": "subject_id", "body_part": "subgroup"})
    notes: list[str] = []
    if "date" in rows:
        rows, notes = _with_times(rows, path)
    images, drops = _images(root)
    images = images.join(rows.set_index("study_id"), on="study_id")
    if "view" in rows:
        images["view"] = _views(images, path)
    images = request.select(images)
    together: dict[str, str] = {}
    sentence = ""
    if request.headers:
        together, sentence = patients_together(root, images, request.threads)
    if sentence:
        log.warning("%s: %s", root, sentence)
        notes = [*notes, sentence]
    empty = images["bytes"].eq("0")
    images["failure"] = pd.Series("file is empty", index=images.index).where(empty)
    return Tables(
        source=root,
        studies=shaped("studies", rows),
        images=shaped("images", images),
        dropped={"studies": damage, "images": drops},
        notes=notes,
        together=together,
    )


def _with_times(rows: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Add the time of each study and its order, and say how many dates cannot be read."""
    text = rows["date"].str.strip().replace("", None)
    times = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    unread = rows.loc[text.notna() & times.isna(), "study_id"].tolist()
    notes = []
    if unread:
        notes.append(
            f"{path.name}: column 'date' of {len(unread)} studies is not written 2026-01-31 or "
            f"2026-01-31T12:30 (e.g. {', '.join(unread[:EXAMPLES])}); they have no prior"
        )
    times = times.dt.tz_localize(None)
    return rows.assign(study_time=study_time.iso(times), order=study_time.order(times)), notes


def _views(images: pd.DataFrame, path: Path) -> pd.Series:
    """Return the view of each image.

    Raises:
        InputError: a study has several views, and not one for each of its images.
    """
    views = images["view"].fillna("").str.upper().str.split(";")
    place = images.groupby("study_id")["number"].rank(method="first").astype("int64") - 1
    count = images.groupby("study_id")["image_id"].transform("size")
    view_count = views.map(len)
    wrong = (view_count > 1) & (view_count != count)
    if wrong.any():
        first = images[wrong].iloc[0]
        raise InputError(
            f"{path}: column 'view' of study {first['study_id']} is '{first['view']}'; expected "
            f"one view, or one for each of its {count[wrong].iloc[0]} images"
        )
    of_image = [names[n if len(names) > 1 else 0] for names, n in zip(views, place, strict=True)]
    return pd.Series(of_image, index=images.index, dtype="str").str.strip().replace("", None)


def _images(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Return study, number, image, path and size of each file, and count what is left out."""
    folder = root / "images"
    if not folder.is_dir():
        raise InputError(f"{folder}: folder not found; expected images/<study_id>_<n>.png")
    rows, strange = [], []
    for file in sorted(folder.iterdir()):
        study, _, number = file.stem.rpartition("_")
        if file.name.startswith("."):
            continue
        fits = study and number.isdecimal() and file.suffix.lower() in SUFFIXES
        # Names in Latin-1 cannot be written into tables; a pipe would be waited for.
        if not (fits and printable(file.name) == file.name and file.is_file()):
            strange.append(file.name)
            continue
        kind = SUFFIXES.index(file.suffix.lower())
        size = str(file.stat().st_size)
        rows.append((study, int(number), kind, file.stem, f"images/{file.name}", size))
    columns = ["study_id", "number", "kind", "image_id", "image_path", "bytes"]
    files = pd.DataFrame(rows, columns=columns)
    second = files.sort_values("kind", kind="stable")["image_id"].duplicated().sort_index()
    images = files[~second].drop(columns="kind").reset_index(drop=True)
    names = ["study_id", "image_id", "image_path", "bytes"]
    return images.astype(dict.fromkeys(names, "str")), [
        Drop.of(f"no file named <study_id>_<n> with {', '.join(SUFFIXES)}", strange, failed=True),
        Drop.of(
            f"a second file of an image, which is read from the first of {', '.join(SUFFIXES)}",
            files.loc[second, "image_path"],
        ),
    ]


def patients_together(root: Path, images: pd.DataFrame, threads: int) -> tuple[dict[str, str], str]:
    """Return who shares files with whom, and a sentence that names some; blank if nobody does.

    The same file under several patients, as in folders that people fill, is a leak between parts: a
    placeholder that was saved for many patients, or one patient under two numbers. Pictures that
    were saved again are found later, by what they show (``images.likeness``). Each patient who
    shares a file has the one that stands for all of them.

    Args:
        root: folder of the data set.
        images: ``image_path``, ``subject_id`` and ``bytes``, the size.
        threads: files that are read at once, times eight.
    """
    rows = images[images["subject_id"].notna() & (images["bytes"] != "0")]
    rows = _of_several(rows.assign(content=rows["bytes"]))
    with ThreadPoolExecutor(max(1, threads * 8)) as pool:
        # Files of one size are compared by their ends, and only those that agree as a whole.
        digests: tuple[Callable[[Path], str], ...] = (_ends, file_digest)
        for digest in digests:
            paths = [below(root, place) for place in rows["image_path"]]
            rows = _of_several(rows.assign(content=list(pool.map(digest, paths))))
    if rows.empty:
        return {}, ""
    together: dict[str, str] = {}
    for _, patients in rows.groupby("content", sort=False)["subject_id"]:
        names = {together.get(name, name) for name in patients}
        first = min(names)
        together |= {name: first for name in {*names, *patients}}
        together |= {name: first for name, group in together.items() if group in names}
    first_picture = rows.loc[rows["content"] == rows["content"].iloc[0], "image_path"]
    return together, (
        f"{len(rows)} image files of {len(together)} patients are the same as one of another "
        f"patient (e.g. {', '.join(first_picture[:3])}); patients who share a file are in one part"
    )


def _of_several(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows whose content several patients have."""
    return rows[rows.groupby("content")["subject_id"].transform("nunique") > 1]


def _ends(path: Path) -> str:
    """The size of a file and a digest of its first and last bytes; its path if it is unreadable."""
    try:
        with open(path, "rb") as file:
            start = file.read(_END)
            size = file.seek(0, 2)
            file.seek(max(0, size - _END))
            return f"{size} {hashlib.sha256(start + file.read()).hexdigest()}"
    except OSError:  # found when it is decoded
        return str(path)
