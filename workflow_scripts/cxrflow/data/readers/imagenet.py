"""ImageNet's classification set (ILSVRC 2012): a folder a class to train on, a list to validate on.

``train/<WNID>/<WNID>_<n>.JPEG``; ``val/ILSVRC2012_val_<8 digits>.JPEG`` without a folder a class:
line n of the development kit's ``ILSVRC2012_validation_ground_truth.txt`` is the ILSVRC2012_ID of
image n, and its ``meta.mat`` says which WNID that is. A class is called by its WNID (WordNet's), as
two have the same words. A picture is of no patient; each stands for itself.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.csv_table import require_root
from cxr_files.drops import Drop, Tally, printable
from cxr_files.errors import InputError, one_line
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, shaped

LISTS = layout("imagenet").lists["tables"]
META, TRUTH = (Path(*LISTS[name]) for name in ("classes", "validation"))
VALIDATION = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG")


def read(root: Path, request: Request) -> Tables:
    """Read the file names and the development kit."""
    numbers = _classes(require_root(root))
    rows, strange = _training(root, set(numbers.values()))
    validation, unlabelled = _validation(root, numbers)
    rows += validation
    if not rows:
        raise InputError(f"{root}: no train/<WNID>/*.JPEG of a class in {META}")
    table = pd.DataFrame(rows, columns=["image_id", "image_path", "class", "split"])
    table = request.select(table)
    table = table.assign(study_id=table["image_id"], subject_id=table["image_id"])
    classes = sorted(numbers.values())
    labels = (table["class"].to_numpy()[:, None] == np.array(classes)).astype("float64")
    return Tables(
        source=root,
        studies=shaped("studies", table),
        images=request.images_of(root, table),
        labels=pd.concat([table[["image_id"]], pd.DataFrame(labels, columns=classes)], axis=1),
        splits=table[["subject_id", "split"]],
        dropped={"images": strange + unlabelled},
        opened=request.headers,
    )


def _classes(root: Path) -> dict[int, str]:
    """Return the WNID of each ILSVRC2012_ID that has images, that is, no child.

    Raises:
        InputError: ``meta.mat`` is missing or not what the development kit has there.
    """
    from scipy.io import loadmat

    path = root / META
    if not path.is_file():
        raise InputError(f"{path}: file not found; expected the development kit, unpacked")
    try:
        synsets: Any = loadmat(path, squeeze_me=True)["synsets"]
        wnid_by_number = {
            int(entry["ILSVRC2012_ID"]): str(entry["WNID"])
            for entry in np.atleast_1d(synsets)
            if int(entry["num_children"]) == 0
        }
    except Exception as error:  # what a damaged file makes of its readers has no common base
        raise InputError(
            f"{path}: {one_line(error)}; expected a table 'synsets' with ILSVRC2012_ID, WNID, "
            "num_children"
        ) from None
    if len(set(wnid_by_number.values())) < max(2, len(wnid_by_number)):
        raise InputError(
            f"{path}: {len(wnid_by_number)} classes; expected two or more, each WNID once"
        )
    return wnid_by_number


def _training(root: Path, classes: set[str]) -> tuple[list[tuple[str, ...]], list[Drop]]:
    """Return id, path, class and split of the training images; count files of no class."""
    rows: list[tuple[str, ...]] = []
    strange = []
    for path in sorted(root.glob("train/*/*")):
        name, place = path.parent.name, path.relative_to(root).as_posix()
        is_known = name in classes and printable(place) == place
        if is_known and path.suffix == ".JPEG" and path.stem.startswith(f"{name}_"):
            rows.append((path.stem, place, name, "train"))
        else:
            strange.append(place)
    reason = f"not <WNID>/<WNID>_<n>.JPEG with a WNID of {META.name}"
    return rows, [Drop.of(reason, strange, failed=True)]


def _validation(root: Path, numbers: dict[int, str]) -> tuple[list[tuple[str, ...]], list[Drop]]:
    """Return id, path, class and split of the validation images; count files of no class."""
    paths = sorted(root.glob("val/*"))
    if not paths:
        return [], []
    truth = root / TRUTH
    if not truth.is_file():
        raise InputError(f"{truth}: file not found; expected a line an image of {root / 'val'}")
    lines = truth.read_text(encoding="ascii", errors="replace").split()
    rows: list[tuple[str, ...]] = []
    tally = Tally("validation images listed", "images")
    for path in paths:
        place, match = path.relative_to(root).as_posix(), VALIDATION.fullmatch(path.name)
        number = int(match[1]) if match else 0
        line = lines[number - 1] if 0 < number <= len(lines) else None
        name = numbers.get(int(line)) if line and line.isdigit() else None
        if match is None:
            tally.drop("not ILSVRC2012_val_<8 digits>.JPEG", [place], failed=True)
        elif line is None:
            tally.drop(f"{TRUTH.name} has no line for it", [place], failed=True)
        elif name is None:
            tally.drop(f"{TRUTH.name} names no class of {META.name}", [place], failed=True)
        else:
            rows.append((path.stem, place, name, "val"))
    return rows, tally.drops
