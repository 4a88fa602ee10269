"""MURA v1.1: radiographs of seven parts of the arm; a study is normal or abnormal.

Lists without header, a pair a part: ``<part>_image_paths.csv`` has a path a line,
``<part>_labeled_studies.csv`` a study's folder, with a slash at its end, and its label. Paths begin
with the name of the release, whatever the folder is called here. A model is scored by study, on the
mean of its images' probabilities (``group_id``); ConVIRT, Appendix B, says "patient", who may have
several studies. What is published for validation is the test part here, as there: MURA's own test
images are not public.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import match_lines, require_file
from cxr_files.drops import Drop
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, shaped, without

LISTS = layout("mura").lists["tables"]
CLASS = "Abnormal"
PARTS = {"train": "train", "valid": "test"}
BODY_PARTS = ("ELBOW", "FINGER", "FOREARM", "HAND", "HUMERUS", "SHOULDER", "WRIST")
_BODY_PART = rf"XR_(?P<subgroup>{'|'.join(BODY_PARTS)})"
_PATIENT = rf"(?P<split>train|valid)/{_BODY_PART}/(?P<subject_id>patient\d+)"
_STUDY = rf"(?:^|/)(?P<study_id>{_PATIENT}/study\d+_(?P<said>positive|negative))"
# macOS keeps attributes in files of names with a full stop, which hold no image.
IMAGE_PATH = rf"{_STUDY}/(?P<file>(?!\._)[^/]+)$"
LABEL = rf"{_STUDY}/?\"?,\"?(?P<{CLASS}>[01])(?:\.0)?\"?$"  # as published, or saved again
SAID = {"positive": "1", "negative": "0"}


def read(root: Path, request: Request) -> Tables:
    """Read the four lists and check that each image's file exists."""
    images, image_drops = _images(root)
    labels, label_drops = _labels(root)
    bare = ~labels["study_id"].isin(images["study_id"])
    labels, lost = without(labels, labels["study_id"], {"no image of the study is listed": bare})
    images = request.select(images)
    return Tables(
        source=root,
        studies=shaped("studies", images.drop_duplicates("study_id")),
        images=request.images_of(root, images),
        labels=labels[["study_id", CLASS]].reset_index(drop=True),
        splits=images[["subject_id", "split"]].drop_duplicates(),
        dropped={"images": image_drops, "labels": label_drops + lost},
        notes=["MURA: a label is a study's; its score is the mean over the images of group_id"],
        opened=request.headers,
    )


def _images(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Return path, study, patient, part and body part of each listed image."""
    tables, drops = [], []
    for name in PARTS:
        path = require_file(root, *LISTS[f"{name}_images"])
        rows, lost = match_lines(path, IMAGE_PATH, "no path of an image")
        tables.append(rows.assign(split=rows["split"].map(PARTS)))
        drops.append(lost)
    images = pd.concat(tables)
    names = images["study_id"] + "/" + images["file"]
    tests = {"the same path again": names.duplicated()}
    images, again = without(images.assign(image_id=names, image_path=names), names, tests, False)
    return images, drops + again


def _labels(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Return the label of each study.

    Studies with two labels, or in a folder named by the opposite label, are left out.
    """
    tables, drops = [], []
    for name in PARTS:
        path = require_file(root, *LISTS[f"{name}_labels"])
        rows, lost = match_lines(path, LABEL, "no study and label (0 or 1)")
        contradicts = rows["said"].map(SAID) != rows[CLASS]
        reason = f"{path.name}: the label is not the one that the folder is named by"
        places = (f"{path}:{number}" for number in rows.index[contradicts])
        drops += [lost, Drop.of(reason, places, failed=True)]
        tables.append(rows[~contradicts])
    labels = pd.concat(tables).astype({CLASS: "float64"})
    tests = {"the same study again": labels.duplicated("study_id")}
    labels, again = without(labels, labels["study_id"], tests, False)
    return labels, drops + again
