"""MURA v1.1: radiographs of seven parts of the arm; a study is normal or abnormal.

Lists without header, a pair a part: ``<part>_image_paths.csv`` has a path a line,
``<part>_labeled_studies.csv`` a study's folder, with a slash at its end, and its label. Paths begin
with the name of the release, whatever the folder is called here. A model is scored by study, on the
mean of its images' probabilities (``group_id``); ConVIRT, Appendix B, says "patient", who may have
several studies. What is published for validation is the test part here, as there: MURA's own test
images are not public.
"""

import re
from pathlib import Path

import pandas as pd

from cxrflow.csv_table import read_lines, require_file, require_root
from cxrflow.data.filters import file_failures
from cxrflow.data.tables import Request, Tables, shaped
from cxrflow.drops import Drop

CLASS = "Abnormal"
PARTS = {"train": "train", "valid": "test"}
BODY_PARTS = ("ELBOW", "FINGER", "FOREARM", "HAND", "HUMERUS", "SHOULDER", "WRIST")
_PATIENT = rf"(?P<part>train|valid)/XR_(?P<body>{'|'.join(BODY_PARTS)})/(?P<patient>patient\d+)"
_STUDY = rf"(?:^|/)(?P<study>{_PATIENT}/study\d+_(?P<said>positive|negative))"
STUDY_PATH, IMAGE_PATH = re.compile(_STUDY + "/?$"), re.compile(_STUDY + r"/(?P<file>[^/]+)$")
_SAID = {"positive": "1", "negative": "0"}


def read(root: Path, request: Request) -> Tables:
    """Read the four lists, and look whether each image's file is there."""
    require_root(root)
    images, image_drops = _images(root)
    labels, label_drops = _labels(root)
    bare = ~labels["study"].isin(images["study"])
    lost = Drop.of("no image of the study is listed", labels.loc[bare, "study"], failed=True)
    labels = labels[~bare].reset_index(drop=True)
    if request.images is not None:
        images = images[images["path"].isin(request.images)].reset_index(drop=True)
    table = shaped(
        "images",
        {
            "image_id": images["path"],
            "study_id": images["study"],
            "subject_id": images["patient"],
            "image_path": images["path"],
            "subgroup": images["body"],
        },
    )
    if request.headers:
        table["failure"] = file_failures(root, images["path"].tolist(), request.threads)
    studies = images.drop_duplicates("study")
    splits = images[["patient", "part"]].drop_duplicates()
    return Tables(
        source=root,
        studies=shaped("studies", {"study_id": studies["study"], "subject_id": studies["patient"]}),
        images=table,
        labels=pd.DataFrame(
            {"study_id": labels["study"], CLASS: labels["label"].astype("float64")}
        ),
        splits=pd.DataFrame({"subject_id": splits["patient"], "split": splits["part"].map(PARTS)}),
        dropped={"images": image_drops, "labels": [*label_drops, *([lost] if lost.count else [])]},
        notes=["MURA: a label is a study's; its score is the mean over the images of group_id"],
        opened=request.headers,
    )


def _images(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Path, study, patient, part and body part of each listed image."""
    names = ("path", "study", "patient", "part", "body")
    rows: list[tuple[str, ...]] = []
    drops: list[Drop] = []
    for part in PARTS:
        path = require_file(root, f"{part}_image_paths.csv")
        wrong = []
        for number, line in _lines(path):
            found = IMAGE_PATH.search(line)
            # macOS keeps attributes in files of these names, which hold no image.
            if found is None or found["file"].startswith("._"):
                wrong.append(f"{path}:{number}")
                continue
            place = f"{found['study']}/{found['file']}"
            rows.append((place, *(found[name] for name in names[1:])))
        drops.append(Drop.of(f"{path.name}: no path of an image", wrong, failed=True))
    images = pd.DataFrame(rows, columns=list(names), dtype="str")
    again = images.duplicated("path")
    drops.append(Drop.of("the same path again", images.loc[again, "path"]))
    return images[~again].reset_index(drop=True), [drop for drop in drops if drop.count]


def _labels(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Study and label; a study under both labels, or whose folder says the other, is left out."""
    rows: list[tuple[str, str]] = []
    lost: dict[str, list[str]] = {}
    for part in PARTS:
        path = require_file(root, f"{part}_labeled_studies.csv")
        for number, line in _lines(path):
            place, _, label = line.rpartition(",")
            found = STUDY_PATH.search(place)
            if found is None or label not in ("0", "1"):
                reason = f"{path.name}: no study and label (0 or 1)"
            elif _SAID[found["said"]] != label:
                reason = f"{path.name}: the label is not the one that the folder is named by"
            else:
                rows.append((found["study"], label))
                continue
            lost.setdefault(reason, []).append(f"{path}:{number}")
    labels = pd.DataFrame(rows, columns=["study", "label"], dtype="str")
    again = labels.duplicated("study")
    drops = [Drop.of(reason, where, failed=True) for reason, where in lost.items()]
    drops.append(Drop.of("the same study again", labels.loc[again, "study"]))
    return labels[~again].reset_index(drop=True), [drop for drop in drops if drop.count]


def _lines(path: Path) -> list[tuple[int, str]]:
    """Lines that are not blank, by number."""
    lines = read_lines(path)
    return [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]
