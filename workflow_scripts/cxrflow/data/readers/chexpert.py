"""CheXpert v1.0: train.csv, valid.csv and, where they lie beside them, labels of the test images.

``Path`` begins with the name of a release (``CheXpert-v1.0-small/``, ``CheXpert-v1.0/``) that the
folder need not have. Labels are those of a report's text in train (1, 0, -1 uncertain, blank not
mentioned) and of radiologists in valid and test; columns are found by name, since their order is
not MIMIC-CXR-JPG's. Irvin et al., AAAI 2019.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, find_file, read_csv, require_file, require_root
from cxr_files.drops import Drop
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import (
    Request,
    Tables,
    drop_repeats,
    no_label,
    shaped,
    without,
)

OBSERVATIONS = layout("chexpert").classes
LISTS = layout("chexpert").lists["tables"]
_IMAGE = ("image_id", "study_id", "subject_id", "image_path", "view")
_PATH = (
    r"(?:^|/)(?P<image_path>(?P<split>train|valid|test)/(?P<subject_id>patient\d+)/"
    r"(?P<study>study\d+)/(?P<image>[^/]+)\.(?:jpg|png))$"
)


def read(root: Path, request: Request) -> Tables:
    """Read the lists and, if asked, check that the image files exist."""
    require_root(root)
    lists = [_read_list(root, split) for split in LISTS]
    rows = request.select(pd.concat([rows for rows, _ in lists]))
    return Tables(
        source=root,
        studies=shaped("studies", rows[["study_id", "subject_id"]].drop_duplicates()),
        images=request.images_of(root, rows),
        labels=rows[["image_id", *OBSERVATIONS]],
        splits=rows[["subject_id", "split"]].drop_duplicates(),
        dropped={"images": [drop for _, drops in lists for drop in drops]},
        opened=request.headers,
    )


def ids_of_paths(paths: pd.Series) -> pd.DataFrame:
    """Return ids, file and part of each ``Path`` of any release; null without a patient.

    An image is called ``patient00001/study1/view1_frontal``, whichever part it stands in.
    """
    ids = paths.str.extract(_PATH)
    study = ids["subject_id"] + "/" + ids["study"]
    return ids.assign(study_id=study, image_id=study + "/" + ids["image"])


def _read_list(root: Path, split: str) -> tuple[pd.DataFrame, list[Drop]]:
    """Read ids, view and labels of one list, and its damage.

    test_labels.csv may be missing.
    """
    (name,) = LISTS[split]
    labels: dict[str, Kind] = dict.fromkeys(OBSERVATIONS, "number")
    if split == "test":
        path = find_file(root, name)
        if path is None:
            return pd.DataFrame(columns=[*_IMAGE, "split", *OBSERVATIONS]), []
        rows, drops = read_csv(path, {"Path": "id", **labels})
    else:
        path = require_file(root, name)
        # No blank in `Frontal/Lateral`; `AP/PA` is blank for laterals.
        sides: dict[str, Kind] = {"Frontal/Lateral": "id", "AP/PA": "text"}
        rows, drops = read_csv(path, {"Path": "id", **sides, **labels})
    rows, repeats = drop_repeats(rows, "Path")
    ids = ids_of_paths(rows["Path"])
    lost = ids["split"] != split
    tests = {
        f"{name}: {label} is not 1, 0, -1 or blank": no_label(rows[label]) & ~lost
        for label in OBSERVATIONS
    }
    form = f"{split}/patient<number>/study<number>/<image>.jpg"
    tests[f"{name}: Path is not …/{form}"] = lost
    rows, wrong = without(rows.join(ids), rows["Path"], tests)
    if split == "test":
        view = rows["image"].str.extract(r"_(frontal|lateral)", expand=False)
    else:
        view = rows["AP/PA"].fillna(rows["Frontal/Lateral"])
    rows = rows.assign(view=view.str.upper())[[*_IMAGE, "split", *OBSERVATIONS]]
    return rows, [*drops, *repeats, *wrong]
