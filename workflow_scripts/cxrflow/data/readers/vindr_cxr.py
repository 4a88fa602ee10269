"""VinDr-CXR (Nguyen et al. 2022): 18,000 frontal radiographs with 28 labels of radiologists.

The test part, 3,000 images, has a row an image: what five radiologists agreed on. The training
part, 15,000 images, has a row an image and radiologist, three each; the label is that of most of
them (ours), and blank where they are equally many. The files name no patients, so that each image
stands for one.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import find_file, read_csv, require_root
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers import dicom_headers
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    drop_repeats,
    require_none,
    require_unique,
    shaped,
)

LISTS = layout("vindr_cxr").lists["tables"]
CLASSES = layout("vindr_cxr").classes
_OTHERS = ("Other diseases", "Other disease")  # the second is the test table's
_HEADER = ["image_width", "image_height", "failure"]


def read(root: Path, request: Request) -> Tables:
    """Read the tables of labels and, if asked, the headers of the images."""
    parts, damage = [], []
    for part, names in LISTS.items():
        path = find_file(require_root(root), *names)
        if path is not None:
            rows, dropped = _labels(path, part)
            parts.append(rows.assign(part=part))
            damage += dropped
    if not parts:
        expected = " or ".join(names[0] for names in LISTS.values())
        raise InputError(f"{root}: {expected} not found; expected one of them at least")
    rows = pd.concat(parts, ignore_index=True)
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
        labels=rows[["image_id", *CLASSES]],
        splits=splits,
        dropped={"images": damage},
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
    return (means > 0.5).astype("float64").mask(means == 0.5).reset_index(), damage
