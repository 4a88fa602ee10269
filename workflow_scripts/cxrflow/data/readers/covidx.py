"""COVIDx v4: two lists of images in three classes, gathered from five collections.

``labels/train_COVIDx4.txt`` and ``labels/test_COVIDx4.txt`` have no header; a line is the patient,
the file's name, the class and the collection, apart by spaces. 197 lines of the test list lack the
collection. Images lie in ``data/train`` and ``data/test``. Most classes come from collections of
their own, so that a classifier may know the collection instead of the disease; ``subgroup`` is the
collection.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import read_lines, require_file
from cxr_files.drops import Drop, Tally
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, drop_repeats, require_unique, shaped

CLASSES = layout("covidx").classes
LISTS = layout("covidx").lists["tables"]


def read(root: Path, request: Request) -> Tables:
    """Read both lists and check that each image's file exists."""
    lists, drops = [], []
    for split, names in LISTS.items():
        lines, damage = _lines(require_file(root, *names))
        lists.append(lines.assign(split=split))
        drops += damage
    rows = pd.concat(lists, ignore_index=True)
    rows, again = _once(rows)
    require_unique(rows, "image_id", f"{root} (both lists)")
    rows = request.select(rows)
    path = "data/" + rows["split"] + "/" + rows["image_id"]
    rows = rows.assign(study_id=rows["image_id"], image_path=path)
    labels = {name: (rows["class"] == name).astype("float64") for name in CLASSES}
    return Tables(
        source=root,
        studies=shaped("studies", rows),
        images=request.images_of(root, rows),
        labels=pd.DataFrame({"image_id": rows["image_id"], **labels}),
        splits=rows[["subject_id", "split"]],
        dropped={"images": drops + again},
        notes=["COVIDx: an image has exactly one of the classes"],
        opened=request.headers,
    )


def _lines(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Read patient, file, class and collection of each line; count lines of another form."""
    good: list[list[str | None]] = []
    tally = Tally("lines read", "lines")
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        reason = _reason(fields) if fields else None
        if reason is not None:
            tally.drop(f"{path.name}: {reason}", [f"{path}:{number}"], failed=True)
        elif fields:
            good.append([*fields, None][:4])
    rows = pd.DataFrame(good, columns=["subject_id", "image_id", "class", "subgroup"], dtype="str")
    rows, repeats = drop_repeats(rows, "image_id")
    return rows, tally.drops + repeats


def _reason(fields: list[str]) -> str | None:
    """Return what is wrong with the fields of a line.

    None if nothing is, or if only the collection is missing.
    """
    expected = "expected patient, file, class and, unless it is missing, collection"
    if not 3 <= len(fields) <= 4:
        return f"{len(fields)} fields; {expected}"
    if fields[2] in CLASSES:
        return None
    if len(fields) == 3:
        kind = "the file's name" if fields[1] in CLASSES else "the class"
        return f"3 fields, of which none is {kind}; {expected}"
    return f"class '{fields[2]}'; expected one of {', '.join(CLASSES)}"


def _once(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[Drop]]:
    """Keep one row of each file: the published training list has one of them twice."""
    classes = rows.groupby(["split", "image_id"])["class"].transform("nunique")
    torn = classes > 1
    again = rows.duplicated(["split", "image_id"]) & ~torn
    return rows[~torn & ~again], [
        Drop.of("one file under several classes", rows.loc[torn, "image_id"].unique(), failed=True),
        Drop.of("the same file again", rows.loc[again, "image_id"]),
    ]
