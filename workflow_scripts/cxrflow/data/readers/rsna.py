"""RSNA Pneumonia Detection Challenge 2018, Kaggle stage 2: labels, class info, boxes, DICOMs.

``patientId`` names an image, not a patient: the 26,684 training images come from some 11,400 NIH
patients. They are known only when the NIH mapping file lies in the root. A label row is a box, so
positives repeat; the class table repeats alike.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from cxr_files.atomic import read_json
from cxr_files.csv_table import find_file, match_lines, read_csv, require_file
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers import dicom_headers
from cxrflow.data.readers.boxes import impossible
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    drop_repeats,
    require_none,
    shaped,
)

LISTS, PARTS = (layout("rsna").lists[use] for use in ("tables", "published"))
(MAPPING,) = LISTS["patients"]
TEST_FOLDER = "stage_2_test_images"
_LINE = r"^stage_2_(?P<folder>train|test)_images/(?P<image_id>[^/\s]+)\.dcm\s+(?P<label>[01])$"
CLASS = "Pneumonia"  # Target 1: lung opacity suspicious for it
HEADER = ["view", "image_width", "image_height", "failure"]
SUBGROUP_NAMES = ("Normal", "No Lung Opacity / Not Normal", "Lung Opacity")


def read(root: Path, request: Request) -> Tables:
    """Read labels and boxes and, if asked, the headers of the training images."""
    path = require_file(root, *LISTS["labels"])
    rows, damage = read_csv(
        path,
        {
            **{"patientId": "id", "x": "number", "y": "number"},
            **{"width": "number", "height": "number", "Target": "value"},
        },
        together=("patientId",),
    )
    rows, repeats = drop_repeats(rows, "patientId")
    rows, contradictions = _consistent(rows, path)
    labels = rows[["patientId", "Target"]].drop_duplicates()
    info, class_damage = _class_info(root)
    names = {"patientId": "image_id", "class": "subgroup", "Target": CLASS}
    labels = labels.merge(info, on="patientId", how="left").rename(columns=names)
    labels, patients = request.select(labels), subjects(root)
    notes = [] if len(patients) else [f"{MAPPING} is not in the root: patients are not known"]
    images = images_in(root, "stage_2_train_images", labels, patients, request)
    unclassed = images["failure"].isna() & images["subgroup"].isna()
    images["failure"] = images["failure"].mask(unclassed, "no class, or several, in the list")
    boxes = rows.dropna(subset=["x", "y", "width", "height"]).rename(
        columns={"patientId": "image_id", "width": "w", "height": "h"}
    )
    reasons = impossible(boxes, images[["image_id", "image_width", "image_height"]])
    # An image with such a box has no truth: neither region nor label.
    bad = reasons.dropna().groupby(boxes["image_id"]).first()
    without_truth = images["failure"].isna() & images["image_id"].isin(bad.index)
    images["failure"] = images["failure"].mask(without_truth, images["image_id"].map(bad))
    boxes = boxes[~boxes["image_id"].isin(bad.index)]
    return Tables(
        source=root,
        studies=shaped("studies", images),
        images=images,
        boxes=shaped(
            "boxes",
            {
                "image_id": boxes["image_id"],
                "category": "Lung Opacity",
                **{side: boxes[side] for side in "xywh"},
            },
        ),
        labels=labels[["image_id", CLASS]],
        dropped={"images": damage + repeats + contradictions, "labels": class_damage},
        notes=notes,
        opened=request.headers,
    )


def images_in(
    root: Path, folder: str, rows: pd.DataFrame, patients: dict[str, str], request: Request
) -> pd.DataFrame:
    """Return the table of the images in a folder, with their headers if these are requested."""
    ids = rows["image_id"]
    rows = rows.assign(study_id=ids, subject_id=ids.map(patients))
    images = shaped("images", rows.assign(image_path=f"{folder}/" + ids + ".dcm"))
    if not request.headers:
        return images
    header = dicom_headers.scan(root, images["image_path"].tolist(), request.threads)
    # Dates in these headers are all 1901-01-01, so there is no order in time.
    return images.assign(**{name: header[name] for name in HEADER})


def _consistent(rows: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Leave out images whose rows contradict each other."""
    contradictory = rows.groupby("patientId")["Target"].transform("nunique") > 1
    no_target = ~rows["Target"].isin([0, 1])
    partial = rows[["x", "y", "width", "height"]].isna()
    broken = (partial.any(axis=1) & ~partial.all(axis=1)) | (
        (rows["Target"] == 1) & partial.any(axis=1)
    )
    boxed = (rows["Target"] == 0) & ~partial.all(axis=1)
    drops = []
    for mask, reason in (
        (contradictory, "Target is both 0 and 1"),
        (no_target & ~contradictory, "Target is neither 0 nor 1"),
        (broken & ~contradictory & ~no_target, "box is incomplete"),
        (boxed & ~broken & ~contradictory, "Target is 0, but there is a box"),
    ):
        if mask.any():
            ids = rows.loc[mask, "patientId"].unique()
            drops.append(Drop.of(f"{path.name}: {reason}", ids, failed=True))
    bad = rows.loc[contradictory | no_target | broken | boxed, "patientId"]
    return rows[~rows["patientId"].isin(bad)], drops


def _class_info(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Return the class of each image, and the damage; the cohort counts images without one."""
    path = require_file(root, *LISTS["classes"])
    info, damage = read_csv(path, {"patientId": "id", "class": "id"})
    strange = sorted(set(info["class"]) - set(SUBGROUP_NAMES))
    if strange:
        raise InputError(
            f"{path}: class is '{strange[0]}'; expected one of {', '.join(SUBGROUP_NAMES)}"
        )
    # Repeated once a box by design; only differing repeats are damage.
    info = info.drop_duplicates()
    differing = info["patientId"].duplicated(keep=False)
    if differing.any():
        ids = info.loc[differing, "patientId"].unique()
        damage.append(Drop.of(f"{path.name}: several classes for one image", ids, failed=True))
    return info[~differing], damage


def subjects(root: Path) -> dict[str, str]:
    """Return the NIH patient of each Kaggle id (``img_id`` = ``<patient>_<n>.png``)."""
    path = root / MAPPING
    if not path.is_file():
        return {}
    records = read_json(path)
    try:
        return {row["subset_img_id"]: row["img_id"].split("_")[0] for row in records}
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path}: a record lacks {error}; expected a list with subset_img_id and img_id"
        ) from None


def read_published(root: Path, request: Request) -> Tables:
    """Read labels and images of train, and of test, whose images have no boxes.

    The published split of the second stage (ConVIRT, Appendix B: 25,184 / 1,500 / 3,000 images).
    The challenge's files have no labels of its 3,000 test images. MRM (Zhou et al., ICLR 2023)
    publishes all three parts as lists, train_list.txt, val_list.txt and test_list.txt, of lines
    ``stage_2_test_images/<id>.dcm 1``. Without the first two all images that the challenge labels
    are train. The split is by image: patients, where the NIH mapping tells them, stand in several
    parts.
    """
    tables = read(root, request)
    entries, damage = _lists(root)
    test_rows = request.select(entries[entries["folder"] == "test"])
    tests = images_in(root, TEST_FOLDER, test_rows, subjects(root), request)
    challenge_labels = tables.labels.set_index("image_id")[CLASS]
    challenge_label = entries["image_id"].map(challenge_labels)
    contradicts = challenge_label.notna() & (challenge_label != entries["label"])
    damage.append(
        Drop.of(
            f"label is not that of {LISTS['labels'][0]}",
            entries.loc[contradicts, "image_id"],
            failed=True,
        )
    )
    split = entries.loc[~contradicts, ["image_id", "split"]]
    if "train" not in set(split["split"]):
        rest = pd.DataFrame({"image_id": tables.images["image_id"], "split": "train"})
        split = pd.concat([rest[~rest["image_id"].isin(split["image_id"])], split])
    return replace(
        tables,
        studies=pd.concat([tables.studies, shaped("studies", tests)], ignore_index=True),
        images=pd.concat([tables.images, tests], ignore_index=True),
        labels=pd.concat(
            [tables.labels, test_rows[["image_id", "label"]].rename(columns={"label": CLASS})],
            ignore_index=True,
        ),
        splits=split.reset_index(drop=True),
        dropped={**tables.dropped, "labels": tables.dropped["labels"] + damage},
    )


def _lists(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Read ``image_id``, ``label``, ``folder``, ``split`` of the lists, and count damaged lines.

    Raises:
        InputError: there is no list of test images, or an image is listed twice.
    """
    damage: list[Drop] = []
    tables = []
    for split, (name,) in PARTS.items():
        path = find_file(root, name)
        if path is None and split == "test":
            raise InputError(
                f"{root}: {name} not found; expected the labels of RSNA's test images, which MRM "
                "publishes (docs/data.md), or splits.method ordered"
            )
        if path is None:
            continue
        rows, lost = match_lines(path, _LINE, "not <folder>/<id>.dcm <0 or 1>")
        damage.append(lost)
        tables.append(rows.assign(split=split))
    entries = pd.concat(tables, ignore_index=True).drop_duplicates()
    twice = entries.loc[entries["image_id"].duplicated(), "image_id"].unique()
    lists = ", ".join(name for names in PARTS.values() for name in names)
    require_none(twice, root, f"image(s) stand in {lists} with two labels or in two parts")
    return entries.astype({"label": "float64"}), damage
