"""PadChest-GR: sentences of grounded reports with boxes, in the form of MS-CXR (BioViL §3.1).

``grounded_reports_20240819.json`` has the sentences of each image; ``master_table.csv`` has its
patient, date, part and label groups. Boxes are x1, y1, x2, y2 in shares of the width and height,
which the image files' headers turn into pixels. A sentence without a box is no sample. Images lie
anywhere below the root, as their archives unpack. A phrase is the English sentence, or the Spanish
one (:func:`read_spanish`); its category is the group of its first label. Boxes are the first
reader's; those of ``extra_boxes`` are a second reader's (``Tables.second_boxes``).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.atomic import read_json
from cxr_files.csv_table import read_csv, require_file, require_root
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
from cxr_files.reading import OutsideError, below
from cxrflow.data.layouts import layout
from cxrflow.data.readers import study_time
from cxrflow.data.readers.boxes import whole_regions
from cxrflow.data.readers.common_tables import Request, Tables, require_unique, shaped
from cxrflow.images.decode import open_file, open_picture
from cxrflow.images.decoded import DecodeError

LISTS = layout("padchest_gr").lists["tables"]
ARCHIVES = ("PadChest_GR*.zip.001", "Padchest_GR_files/*.zip.001")
_REGION = ("image_id", "category", "phrase")
_DAY = 86_400e6  # microseconds


def _read(language: str, root: Path, request: Request) -> Tables:
    """Read the sentences, the table of studies, and the sizes of the image files."""
    path = require_file(require_root(root), *LISTS["reports"])
    reports = read_json(path)
    if not isinstance(reports, list):
        raise InputError(f"{path}: is no JSON list; expected one of studies")
    studies, groups, damage = _studies(require_file(root, *LISTS["studies"]))
    rows, second, priors, drops = _sentences(path, reports, groups, language)
    pictured = rows[["image_id", "study_id"]].drop_duplicates("image_id")
    images = pd.concat(
        [pictured.merge(studies, on="study_id"), _with_orders(priors, studies)], ignore_index=True
    ).drop_duplicates("image_id")
    images = request.select(images.assign(view="FRONTAL"))
    files = _files(root)
    images = images.assign(image_path=images["image_id"].map(files).astype("str"))
    images = images.join(_sizes(root, images["image_path"]))
    boxes, wrong = _in_pixels(rows[rows["image_id"].isin(images["image_id"])], images)
    second, lost = _in_pixels(second[second["image_id"].isin(images["image_id"])], images)
    lost = [replace(drop, reason=f"second reader: {drop.reason}") for drop in lost]
    owners = images[["study_id", "subject_id", "study_time", "order"]].drop_duplicates("study_id")
    return Tables(
        source=root,
        studies=shaped("studies", owners),
        images=shaped("images", images),
        boxes=shaped("boxes", boxes),
        second_boxes=shaped("boxes", second),
        splits=studies[["subject_id", "split"]].drop_duplicates(),
        dropped={"boxes": [*damage, *drops, *wrong, *lost]},
    )


read = partial(_read, "sentence_en")
read_spanish = partial(_read, "sentence_es")


def _studies(path: Path) -> tuple[pd.DataFrame, dict[str, str], list[Drop]]:
    """Patient, time, order and part of each study, and the group of each label."""
    rows, damage = read_csv(
        path,
        {"StudyID": "id", "PatientID": "id", "label": "text", "label_group": "text", "split": "id"},
        {"StudyDate_DICOM": "text"},
    )
    grouped = rows[["label", "label_group"]].dropna().apply(lambda column: column.str.strip())
    groups = dict(grouped.itertuples(index=False))
    studies = rows[["StudyID", "PatientID", "split", "StudyDate_DICOM"]].drop_duplicates()
    require_unique(studies, "StudyID", path)
    dates = studies["StudyDate_DICOM"].str.replace(r"\.0$", "", regex=True)
    times = study_time.from_dicom(dates, pd.Series("", index=studies.index))
    studies = studies.assign(study_time=study_time.iso(times), order=study_time.order(times))
    names = {"StudyID": "study_id", "PatientID": "subject_id"}
    columns = ["study_id", "subject_id", "study_time", "order", "split"]
    return studies.rename(columns=names)[columns].reset_index(drop=True), groups, damage


def _sentences(
    path: Path, reports: list[Any], groups: dict[str, str], language: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, list[Drop]]:
    """Return a row a box of each reader, the priors of studies, and what is left out."""
    rows: dict[str, list[tuple[object, ...]]] = {"boxes": [], "extra_boxes": []}
    priors = []
    omitted: dict[tuple[str, bool], list[str]] = {}
    for report in reports:
        image = report.get("ImageID") if isinstance(report, dict) else None
        if not isinstance(image, str) or report.get("StudyID") is None:
            omitted.setdefault(("study has no StudyID or ImageID", True), []).append(str(image))
            continue
        study = str(report["StudyID"])
        before, prior = report.get("PreviousStudyID"), report.get("PreviousImageID")
        if before is not None and isinstance(prior, str):
            priors.append((prior, str(before), study))
        for reader, of_reader in rows.items():
            for phrase, category, box, reason in _boxes(report, groups, language, reader):
                if reason is None:
                    of_reader.append((image, study, category, phrase, *box))
                elif reader == "boxes" or reason == BAD_BOX:
                    omitted.setdefault((reason, reason != NO_BOX), []).append(image)
    columns = ["image_id", "study_id", "category", "phrase", "x1", "y1", "x2", "y2"]
    drops = [Drop.of(f"{path.name}: {why}", ids, failed) for (why, failed), ids in omitted.items()]
    earlier = pd.DataFrame(priors, columns=["image_id", "study_id", "next"])
    first, second = (pd.DataFrame(of_reader, columns=columns) for of_reader in rows.values())
    return first, second, earlier, drops


NO_BOX, BAD_BOX = "sentence without a box", "box is not four numbers"


def _boxes(
    report: dict[str, Any], groups: dict[str, str], language: str, reader: str
) -> Iterator[tuple[str, str, tuple[float, ...], str | None]]:
    """Each sentence's phrase, category and a reader's boxes, or why it is no sample."""
    findings = report.get("findings")
    for finding in findings if isinstance(findings, list) else []:
        phrase = finding.get(language) if isinstance(finding, dict) else None
        boxes = finding.get(reader) if isinstance(finding, dict) else None
        labels = finding.get("labels") if isinstance(finding, dict) else None
        if not isinstance(phrase, str) or not phrase.strip():
            yield "", "", (), f"{language} is blank"
        elif not boxes:
            yield "", "", (), NO_BOX
        elif not labels or not isinstance(labels, list):
            yield "", "", (), "sentence with boxes has no label"
        else:
            label = str(labels[0]).strip()
            for box in boxes:
                numbers = tuple(box) if isinstance(box, list) else ()
                is_valid = len(numbers) == 4 and all(isinstance(n, int | float) for n in numbers)
                reason = None if is_valid else BAD_BOX
                yield " ".join(phrase.split()), groups.get(label, label), numbers, reason


def _in_pixels(rows: pd.DataFrame, images: pd.DataFrame) -> tuple[pd.DataFrame, list[Drop]]:
    """Boxes in pixels.

    A sample with one outside of 0 to 1, or on an image without a size, is left out with all boxes.
    """
    corners = rows[["x1", "y1", "x2", "y2"]].astype("float64")
    reasons = rows["image_id"].map(images.set_index("image_id")["failure"]).astype("str")
    outside = ~corners.ge(0).all(axis=1) | ~corners.le(1).all(axis=1)
    reasons = reasons.mask(outside, "box is not in shares of the image from 0 to 1")
    sizes = images.set_index("image_id")[["image_width", "image_height"]].astype("float64")
    width, height = (rows["image_id"].map(sizes[name]) for name in sizes)
    boxes = rows.assign(
        x=corners["x1"] * width,
        y=corners["y1"] * height,
        w=(corners["x2"] - corners["x1"]) * width,
        h=(corners["y2"] - corners["y1"]) * height,
    )
    return whole_regions(boxes, [*_REGION], reasons, boxes["image_id"])


def _with_orders(priors: pd.DataFrame, studies: pd.DataFrame) -> pd.DataFrame:
    """The images of prior studies; one that the table does not date is a day before the next."""
    after = priors.merge(
        studies.rename(columns={"study_id": "next"}), on="next", how="inner"
    ).drop_duplicates("image_id")
    dated = studies.set_index("study_id")
    order = after["study_id"].map(dated["order"]).fillna(after["order"] - _DAY)
    time = after["study_id"].map(dated["study_time"])
    return after.assign(order=order, study_time=time).drop(columns=["next", "split"])


def _files(root: Path) -> dict[str, str]:
    """The path of each image below the root, by its name.

    Raises:
        InputError: there is none, but an archive in pieces.
    """
    files = {
        file.name: file.relative_to(root).as_posix()
        for file in walk_files(root)
        if file.suffix.lower() == ".png"
    }
    pieces = [piece for pattern in ARCHIVES for piece in root.glob(pattern)]
    if not files and pieces:
        name = pieces[0].name.removesuffix(".001")
        raise InputError(
            f"{pieces[0]}: is a piece of an archive; expected it unpacked: type `cat {name}.0* > "
            f"{name} && unzip -q {name}` beside it"
        )
    return files


def _sizes(root: Path, places: pd.Series) -> pd.DataFrame:
    """Width, height and failure of each image file, by its header."""
    sizes: list[tuple[int | None, int | None, str | None]] = []
    for place in places:
        if not isinstance(place, str):
            sizes.append((None, None, "file not found"))
            continue
        try:
            with open_file(below(root, place)) as file:
                sizes.append((*open_picture(file).size, None))
        except (OSError, DecodeError, OutsideError) as error:
            sizes.append((None, None, str(error)))
    columns = ["image_width", "image_height", "failure"]
    return pd.DataFrame(sizes, columns=columns, index=places.index)
