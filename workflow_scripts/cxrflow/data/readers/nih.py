"""NIH ChestX-ray14 (Wang et al., CVPR 2017): labels of 112,120 images, official lists, boxes.

Both editions of the table are read (``Data_Entry_2017_v2020.csv``, ``Data_Entry_2017.csv``), whose
headers have names with commas in them, one also a comma at its end. A patient is the number before
the underscore in an image's name; RSNA's images are some of these, renamed.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import find_file, read_csv, read_lines, require_file
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.reading import below
from cxrflow.data.layouts import layout
from cxrflow.data.readers.boxes import impossible, whole_regions
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    read_once,
    require_none,
    shaped,
    without,
)

LISTS = layout("nih").lists["tables"]
PARTS = {part: LISTS[part][0] for part in ("train", "test")}
NO_FINDING = "No Finding"
CLASSES = layout("nih").classes
_BOX_NAMES = {"Infiltrate": "Infiltration"}  # the name in the list of boxes
_IMAGE = r"^(?P<subject_id>\d{8})_\d{3}\.png$"


def read(root: Path, request: Request) -> Tables:
    """Read the table, the lists and, if asked, whether the image files are there."""
    path = require_file(root, *LISTS["images"])
    rows, damage = read_once(
        path,
        {"Image Index": "id", "Finding Labels": "id", "View Position": "text"},
        "Image Index",
    )
    names = rows["Image Index"]
    labels = _labels(rows["Finding Labels"])
    subjects = names.str.extract(_IMAGE)["subject_id"]
    strange = labels.isna().any(axis=1)
    tests = {
        f"{path.name}: Image Index is not <8 digits>_<3 digits>.png": subjects.isna(),
        f"{path.name}: Finding Labels has another word than the 14 and {NO_FINDING}": strange,
    }
    rows = rows.assign(image_id=names, subject_id=subjects, view=rows["View Position"])
    rows, wrong = without(rows.join(labels), names, tests)
    splits, stray, unlisted = _splits(root, rows)
    reason = "in neither official list, unlike others of its patient"
    rows, left_out = without(rows, rows["image_id"], {reason: stray}, failed=False)
    rows = request.select(rows.assign(study_id=rows["image_id"]))
    rows["image_path"] = _paths(root, rows["image_id"])
    images = request.images_of(root, rows)
    boxes, box_damage = _boxes(root, set(rows["image_id"]))
    return Tables(
        source=root,
        studies=shaped("studies", rows),
        images=images,
        boxes=boxes,
        labels=rows[["image_id", *CLASSES]],
        splits=splits,
        split_files=tuple(PARTS.values()) if splits is None else (),
        dropped={"images": [*damage, *wrong, *left_out], "boxes": box_damage},
        notes=unlisted,
        opened=request.headers,
    )


def _labels(texts: pd.Series) -> pd.DataFrame:
    """Labels [N, 15] of lists such as ``Effusion|Mass``; null where a word is none of the classes.

    ``No Finding`` stands alone.
    """
    words = texts.str.split("|")
    in_classes = words.map(lambda names: set(names) <= set(CLASSES))
    sole = words.map(lambda names: NO_FINDING not in names or len(names) == 1)
    values = {name: words.map(lambda names, n=name: float(n in names)) for name in CLASSES}
    return pd.DataFrame(values).where(in_classes & sole)


def _splits(root: Path, rows: pd.DataFrame) -> tuple[pd.DataFrame | None, pd.Series, list[str]]:
    """The official split by patient, stray images, and notes where lists and table differ.

    The lists are of images. One that neither has must not get the part of its patient.

    Raises:
        InputError: one list is missing, or an image or a patient is in both.
    """
    paths = {part: below(root, name) for part, name in PARTS.items()}
    if not any(path.is_file() for path in paths.values()):
        note = f"neither {' nor '.join(PARTS.values())} is in the root: no official split"
        return None, pd.Series(False, index=rows.index), [note]
    names_by_part = {part: _lines(path) for part, path in paths.items()}
    repeated = sorted(names_by_part["train"] & names_by_part["test"])
    source = f"{paths['train'].name} and {paths['test'].name}"
    require_none(repeated, source, "image(s) in both lists", "expected each in one")
    split_of_image = rows["image_id"].map(
        {name: part for part, names in names_by_part.items() for name in names}
    )
    splits = rows[["subject_id"]].assign(split=split_of_image).dropna().drop_duplicates()
    shared = splits.loc[splits["subject_id"].duplicated(), "subject_id"]
    require_none(shared, source, "patient(s) with images in both lists", "expected each in one")
    absent = int(split_of_image.isna().sum())
    strange = sorted(names_by_part["train"].union(names_by_part["test"]) - set(rows["image_id"]))
    notes = {
        f"{absent} images of the table are in neither official list": absent,
        f"{len(strange)} lines of the official lists are no image of the table "
        f"(e.g. {', '.join(strange[:1])})": len(strange),
    }
    stray = split_of_image.isna() & rows["subject_id"].isin(splits["subject_id"])
    return splits, stray, [note for note, count in notes.items() if count]


def _lines(path: Path) -> set[str]:
    if not path.is_file():
        raise InputError(f"{path}: not found; expected both official lists, or neither")
    return {line.strip() for line in read_lines(path)} - {""}


def _paths(root: Path, names: pd.Series) -> pd.Series:
    """Where each image lies: ``images_001/images/``, ``images_002/images/`` … or ``images/``."""
    folders = [*sorted(root.glob("images_*/images")), root / "images"]
    places: dict[str, str] = {}
    for folder in folders:
        if folder.is_dir():
            place = folder.relative_to(root).as_posix()
            for file in folder.iterdir():
                places.setdefault(file.name, f"{place}/{file.name}")
    return names.map(lambda name: places.get(name, f"images/{name}"))


def _boxes(root: Path, images: set[str]) -> tuple[pd.DataFrame, list[Drop]]:
    """Boxes in pixels of the image, of those of which all boxes can be read.

    Boxes of images that were left out are dropped as well.

    The list may be missing. Its header has nine fields, its rows six.
    """
    path = find_file(root, *LISTS["boxes"])
    if path is None:
        return shaped("boxes", {}), []
    sides = {"x": "Bbox [x", "y": "y", "w": "w", "h": "h]"}
    rows, damage = read_csv(
        path,
        {"Image Index": "id", "Finding Label": "id", **dict.fromkeys(sides.values(), "value")},
        together=("Image Index",),
    )
    rows = rows.rename(columns={column: side for side, column in sides.items()})
    rows = rows.rename(columns={"Image Index": "image_id"})
    rows["category"] = rows["Finding Label"].replace(_BOX_NAMES)
    rows = rows[rows["image_id"].isin(images)]
    sizes = rows[["image_id"]].assign(image_width=None, image_height=None)
    reasons = impossible(rows, sizes).mask(
        ~rows["category"].isin(CLASSES), "Finding Label is none of the classes"
    )
    # An image's boxes are one region where it is scored, whatever they show.
    rows, wrong = whole_regions(rows, ["image_id"], f"{path.name}: " + reasons, rows["image_id"])
    return shaped("boxes", rows), [*damage, *wrong]
