"""PadChest (Bustos et al. 2020): labels that physicians gave to the reports of 39,053 images.

The table has 36 columns, of which lists are written as Python writes them, with stray spaces in
their items. Classes are those of the 193 labels that KAD lists which occur. Only rows that a
physician labelled (``MethodLabel``) are read; those labelled by a recurrent network are counted.
``Projection`` is reliable, ``ViewPosition_DICOM`` is not. Images are PNG files of 16 bits, a few of
which are cut off or missing. A PNG file does not say whether its radiograph was MONOCHROME1, dark
where the body is dense; the table does.
"""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from cxr_files.csv_table import require_file
from cxr_files.errors import InputError
from cxr_files.reading import below
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, read_once, shaped, without

LISTS = layout("padchest").lists["tables"]
LABELS = layout("padchest").listed
PHYSICIAN, NETWORK = "Physician", "RNN_model"
PHOTOMETRIC = "PhotometricInterpretation_DICOM"
#: Views as other data sets call them; what is not here keeps its name.
VIEWS = {"L": "LATERAL", "AP_horizontal": "AP SUPINE"}


def read(root: Path, request: Request) -> Tables:
    """Read the physicians' rows and, if asked, whether their image files are there."""
    path = require_file(root, *LISTS["images"])
    rows, damage = read_once(
        path,
        {
            **{"ImageID": "path", "ImageDir": "path", "StudyID": "id", "PatientID": "id"},
            **{"Projection": "text", "MethodLabel": "id", "Labels": "text"},
        },
        "ImageID",
        optional={PHOTOMETRIC: "text"},
    )
    names = rows["ImageID"]
    rows, by_network = without(
        rows, names, {"labelled by a network": rows["MethodLabel"] == NETWORK}, failed=False
    )
    strange = rows["MethodLabel"] != PHYSICIAN
    texts = rows["Labels"].mask(rows["Labels"] == "nan")
    items = texts.map(_items, na_action="ignore")
    blank = texts.isna() | items.map(lambda names: names == []).astype(bool)
    rows, wrong = without(
        rows.assign(items=items),
        names[rows.index],
        {f"{path.name}: MethodLabel is neither {PHYSICIAN} nor {NETWORK}": strange},
    )
    unread = rows["items"].isna() & ~blank[rows.index]
    rows, broken = without(rows, rows["ImageID"], {f"{path.name}: Labels is no list": unread})
    rows, unlabelled = without(
        rows, rows["ImageID"], {"no labels": blank[rows.index]}, failed=False
    )
    if rows.empty:
        kinds = [*damage, *by_network, *wrong, *broken, *unlabelled]
        lost = "; ".join(f"{drop.count} {drop.reason}" for drop in kinds) or "it has no rows"
        raise InputError(f"{path}: no row with Labels of MethodLabel {PHYSICIAN} ({lost})")
    rows = request.select(
        rows.rename(columns={"ImageID": "image_id", "StudyID": "study_id"}).assign(
            subject_id=rows["PatientID"], view=rows["Projection"].replace(VIEWS).str.upper()
        )
    )
    rows["image_path"] = _paths(root, rows)
    labels, unlisted = _labels(rows["items"])
    if labels.empty:
        example = (
            f"'{unlisted.most_common(1)[0][0]}' is the commonest" if unlisted else "it has none"
        )
        raise InputError(
            f"{path}: column Labels has none of the 193 labels in rows of MethodLabel {PHYSICIAN} "
            f"({example}); expected names such as '{LABELS[0]}'"
        )
    notes = [f"label '{name}' of {n} images is none of the 193" for name, n in unlisted.items()]
    turned = rows.loc[rows[PHOTOMETRIC] == "MONOCHROME1", "image_id"]
    if len(turned):
        notes.append(
            f"{PHOTOMETRIC} is MONOCHROME1 of {len(turned)} images (e.g. {', '.join(turned[:3])}); "
            "their files are read as they are: where lungs are white in them, take the rows out of "
            "the table"
        )
    return Tables(
        source=root,
        studies=shaped("studies", rows.drop_duplicates("study_id")),
        images=request.images_of(root, rows),
        labels=pd.concat([rows[["image_id"]], labels], axis=1),
        dropped={"images": [*damage, *by_network, *wrong, *broken, *unlabelled]},
        notes=notes,
        opened=request.headers,
    )


def _items(text: str) -> list[str] | None:
    """The items of a list such as ``['cardiomegaly', ' edema']``; None if it is not a list."""
    try:
        items = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return None
    return [item.strip() for item in items if item.strip()]


def _labels(items: pd.Series) -> tuple[pd.DataFrame, Counter[str]]:
    """Labels [N, C]: 1 where an item is the whole name of the class, else 0; what is no class."""
    place = {name.casefold(): number for number, name in enumerate(LABELS)}
    labels, unlisted = np.zeros((len(items), len(LABELS)), np.float32), Counter[str]()
    for row, names in enumerate(items):
        listed_names = [name for name in names if name.casefold() in place]
        labels[row, [place[name.casefold()] for name in listed_names]] = 1
        unlisted.update(set(names).difference(listed_names))
    occurring = np.flatnonzero(labels.sum(axis=0))
    classes = [LABELS[number] for number in occurring]
    return pd.DataFrame(labels[:, occurring], columns=classes, index=items.index), unlisted


def _paths(root: Path, rows: pd.DataFrame) -> pd.Series:
    """Where each image lies: ``<ImageDir>/``, ``images/<ImageDir>/`` or ``images/``."""
    folders = {
        number: next(
            (p for p in (f"{number}/", f"images/{number}/", "images/") if below(root, p).is_dir()),
            f"{number}/",
        )
        for number in rows["ImageDir"].unique()
    }
    return rows["ImageDir"].map(folders) + rows["image_id"]
