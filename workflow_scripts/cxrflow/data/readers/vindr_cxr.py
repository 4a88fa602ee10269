"""VinDr-CXR (Nguyen et al. 2022): 18,000 frontal radiographs with 28 labels of radiologists.

The test part, 3,000 images, has a row an image: what five radiologists agreed on. The training
part, 15,000 images, has a row an image and radiologist, three each; the label is that of most of
them (ours), and blank where they are equally many. The files name no patients, so that each image
stands for one. Kaggle's ``train.csv`` is the training part with a row a box, or "No finding" and
none; a class that it never names is unknown.

Boxes are in pixels of the image, of the test part those agreed on, of the training part all those
of a class that most radiologists have boxed (ours). A phrase is the class in words.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, find_file, read_csv, require_root
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.prompts import PROMPT_SETS
from cxrflow.data.readers import dicom_headers
from cxrflow.data.readers.boxes import impossible, whole_regions
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    drop_repeats,
    require_none,
    require_unique,
    shaped,
)

LISTS = layout("vindr_cxr").lists["tables"]
KAGGLE = "train.csv"
NONE = "No finding"
CLASSES = layout("vindr_cxr").classes
_OTHERS = ("Other diseases", "Other disease")  # the second is the test table's
_HEADER = ["image_width", "image_height", "failure"]


def read(root: Path, request: Request) -> Tables:
    """Read the tables of labels and, if asked, the headers of the images."""
    part_tables, damage = [], []
    boxes, box_damage = [shaped("boxes", {})], []
    for part in ("train", "test"):
        path = find_file(require_root(root), *LISTS[part])
        if path is None:
            continue
        is_kaggle = path.name.startswith(KAGGLE)
        rows, dropped = _labels_of_boxes(path) if is_kaggle else _labels(path, part)
        part_tables.append(rows.assign(part=part))
        damage += dropped
        box_path = find_file(root, *LISTS[f"{part}_boxes"])
        if box_path is not None:
            of_part, lost = _boxes(box_path, set(rows["image_id"]))
            boxes.append(of_part)
            box_damage += lost
    if not part_tables:
        expected = " or ".join(LISTS[part][0] for part in ("train", "test"))
        raise InputError(f"{root}: {expected} not found; expected one of them at least")
    rows = pd.concat(part_tables, ignore_index=True)
    repeated = rows.loc[rows["image_id"].duplicated(), "image_id"]
    require_none(repeated, root, "image(s) in both parts", "expected each in one")
    splits = rows[["image_id"]].assign(split=rows["part"])
    rows = request.select(rows)
    ids = rows["image_id"]
    paths = rows["part"] + "/" + ids + ".dicom"
    rows = rows.assign(study_id=ids, image_path=paths, view="PA")
    images = shaped("images", rows)
    if request.headers:
        header = dicom_headers.scan(root, images["image_path"].tolist(), request.threads)
        images = images.assign(**{name: header[name] for name in _HEADER})
    return Tables(
        source=root,
        studies=shaped("studies", rows),
        images=images,
        boxes=pd.concat(boxes, ignore_index=True),
        labels=rows[["image_id", *CLASSES]],
        splits=splits,
        dropped={"images": damage, "boxes": box_damage},
        opened=request.headers,
    )


def _labels(path: Path, part: str) -> tuple[pd.DataFrame, list[Drop]]:
    """Labels of each image of a part: of the test part its row, else what most rows say."""
    columns = [name for name in CLASSES if name not in _OTHERS]
    rows, damage = read_csv(
        path,
        {"image_id": "id", **dict.fromkeys(columns, "value")},
        dict.fromkeys(_OTHERS, "value"),
        together=("image_id",),
    )
    rows[_OTHERS[0]] = rows[_OTHERS[0]].fillna(rows[_OTHERS[1]])
    rows = rows[["image_id", *CLASSES]]
    if not rows.empty and rows[_OTHERS[0]].isna().all():
        raise InputError(f"{path}: column '{_OTHERS[0]}' is missing; expected it, or the singular")
    strange = ~rows[list(CLASSES)].isin([0, 1]).all(axis=1)
    names = rows["image_id"][strange].unique()
    damage.append(Drop.of(f"{path.name}: a label is neither 0 nor 1", names, failed=True))
    rows = rows[~rows["image_id"].isin(names)]  # what most say is not known without one of them
    if part == "test":
        rows, repeats = drop_repeats(rows, "image_id")
        require_unique(rows, "image_id", path)
        return rows.reset_index(drop=True), damage + repeats
    means = rows.groupby("image_id", sort=False)[list(CLASSES)].mean()
    return _of_most(means).reset_index(), damage


def _of_most(shares: pd.DataFrame) -> pd.DataFrame:
    """1 where more than half of the radiologists say so, blank where half do or nothing is said."""
    return (shares > 0.5).astype("float64").mask((shares == 0.5) | shares.isna())


def _said(path: Path) -> tuple[pd.DataFrame, pd.DataFrame, list[Drop]]:
    """The rows of a list of boxes, and of each image and class the share of its radiologists."""
    sides: dict[str, Kind] = dict.fromkeys(("x_min", "y_min", "x_max", "y_max"), "number")
    rows, damage = read_csv(
        path,
        {"image_id": "id", "class_name": "id", **sides},
        {"rad_id": "text"},
        together=("image_id",),
    )
    names = rows.loc[~rows["class_name"].isin(CLASSES), "image_id"].unique()
    damage.append(Drop.of(f"{path.name}: class_name is none of the classes", names, failed=True))
    rows = rows[~rows["image_id"].isin(names)]
    readers = rows["rad_id"].fillna("all").groupby(rows["image_id"]).nunique()
    readings = rows.assign(rad_id=rows["rad_id"].fillna("all"))
    readings = readings.drop_duplicates(["image_id", "class_name", "rad_id"])
    counts = pd.crosstab(readings["image_id"], readings["class_name"])
    return rows, counts.div(readers, axis=0), damage


def _labels_of_boxes(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Labels of each image of Kaggle's list."""
    _, shares, damage = _said(path)
    labels = _of_most(shares.reindex(columns=list(CLASSES)))
    return labels.rename_axis(columns=None).reset_index(), damage


def _boxes(path: Path, images: set[str]) -> tuple[pd.DataFrame, list[Drop]]:
    """Boxes of the classes that most radiologists have seen in these images."""
    rows, shares, damage = _said(path)
    rows = rows[(rows["class_name"] != NONE) & rows["image_id"].isin(images)]
    place = pd.MultiIndex.from_frame(rows[["image_id", "class_name"]])
    few = Drop.of(
        f"{path.name}: box of a class that most radiologists do not see",
        rows["image_id"][shares.stack().reindex(place).le(0.5).to_numpy()],
    )
    rows = rows[shares.stack().reindex(place).gt(0.5).to_numpy()]
    boxes = pd.DataFrame(
        {
            "image_id": rows["image_id"],
            "category": rows["class_name"],
            "phrase": rows["class_name"].map(lambda name: PROMPT_SETS["chexzero"].of(name)[0][0]),
            "x": rows["x_min"],
            "y": rows["y_min"],
            "w": rows["x_max"] - rows["x_min"],
            "h": rows["y_max"] - rows["y_min"],
        }
    )
    sizes = boxes[["image_id"]].assign(image_width=None, image_height=None)
    reasons = f"{path.name}: " + impossible(boxes, sizes)
    boxes, wrong = whole_regions(boxes, ["image_id", "category"], reasons, boxes["image_id"])
    return shaped("boxes", boxes), [*damage, few, *wrong]
