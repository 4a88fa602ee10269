"""CheXpert 8x200 (ConVIRT, Appendices C and D): images to search, and what they are searched by.

``image-retrieval/candidate.csv`` has CheXpert's columns, ``query.csv`` in the same folder and in
``text-retrieval/`` ``Variable`` (a category) and ``Path`` or ``Text``. Exactly one label of a
candidate is positive and all others are negative. The images lie in CheXpert's training part; six
patients have both a query and a candidate.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import find_file, read_csv, require_file
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers.chexpert import OBSERVATIONS, ids_of_paths
from cxrflow.data.readers.common_tables import (
    Request,
    RetrievalTables,
    drop_repeats,
    require_none,
    shaped,
    without,
)

LISTS = layout("retrieval_8x200").lists["tables"]
#: Table 5: a text of each category, for who has no ``text-retrieval/query.csv``.
EXAMPLES = {
    "Atelectasis": "Platelike opacity likely represents atelectasis.",
    "Cardiomegaly": "The cardiac silhouette is enlarged.",
    "Edema": "The presence of hazy opacity suggests interstitial pulmonary edema.",
    "Fracture": "A cortical step off indicates the presence of a fracture.",
    "Pleural Effusion": "The pleural space is partially filled with fluid.",
    "Pneumonia": "A pulmonary opacity with ill defined borders likely represents pneumonia.",
    "Pneumothorax": "A medial pneumothorax is present adjacent to the heart.",
    "No Finding": "No clinically significant radiographic abnormalities.",
}


def read(root: Path, request: Request) -> RetrievalTables:
    """Read the lists. The images are in CheXpert's root and are not opened."""
    candidates, drops = _candidates(root)
    categories = list(dict.fromkeys(candidates["category"]))
    path = require_file(root, *LISTS["images"])
    queries, query_drops = _queries(path, "Path", categories)
    queries, lost = _with_ids(queries, path)
    query_drops += lost
    searched = pd.concat([queries.assign(part="query"), candidates.assign(part="candidate")])
    twice = searched.loc[searched["image_id"].duplicated(), "image_id"].unique()
    once = "expected each once, as a query or as a candidate"
    require_none(twice, path.parent, "image(s) are listed twice", once)
    texts, text_drops, notes = _texts(root, categories)
    patients = set(queries["subject_id"]) & set(candidates["subject_id"])
    notes.append(f"{len(patients)} patient(s) have both a query and a candidate image")
    return RetrievalTables(
        source=root,
        studies=shaped("studies", searched[["study_id", "subject_id"]].drop_duplicates()),
        images=shaped("images", searched),
        searched=searched[["image_id", "part", "category"]].reset_index(drop=True),
        texts=texts,
        dropped={"candidates": drops, "image queries": query_drops, "text queries": text_drops},
        notes=notes,
        opened=False,
    )


def _candidates(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Return ids and ``category`` of the candidates: the one label that is positive."""
    path = require_file(root, *LISTS["candidates"])
    rows, drops = read_csv(path, {"Path": "id", **dict.fromkeys(OBSERVATIONS, "number")})
    rows, repeats = drop_repeats(rows, "Path")
    labels = rows[list(OBSERVATIONS)]
    exclusive = (labels == 1).sum(axis=1).eq(1) & (labels == 0).sum(axis=1).eq(labels.shape[1] - 1)
    reason = f"{path.name}: not one label 1 and all others 0"
    rows, several = without(rows, rows["Path"], {reason: ~exclusive})
    if rows.empty:
        raise InputError(f"{path}: no candidate has one label 1 and all others 0")
    rows = rows.assign(category=labels[exclusive].idxmax(axis=1))  # of which none may be blank
    rows, lost = _with_ids(rows, path)
    return rows, [*drops, *repeats, *several, *lost]


def _with_ids(rows: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Add the ids in ``Path``; leave out rows whose path names no image."""
    rows = rows.join(ids_of_paths(rows["Path"]))
    reason = f"{path.name}: Path is not …/train/patient<number>/study<number>/<image>.jpg"
    return without(rows, rows["Path"], {reason: rows["image_id"].isna()})


def _queries(path: Path, column: str, categories: list[str]) -> tuple[pd.DataFrame, list[Drop]]:
    """Read ``Path`` or ``Text``, and ``category``, which must be a candidate's."""
    rows, drops = read_csv(path, {"Variable": "id", column: "id"})
    rows, repeats = drop_repeats(rows, column)
    strange = sorted(set(rows["Variable"]) - set(categories))
    if strange:
        raise InputError(
            f"{path}: Variable is '{strange[0]}', of which there is no candidate; expected one of "
            f"{', '.join(categories)}"
        )
    return rows.rename(columns={"Variable": "category"}), drops + repeats


def _texts(root: Path, categories: list[str]) -> tuple[pd.DataFrame, list[Drop], list[str]]:
    """Return the text queries and damage; Table 5 stands in for a missing file, with a note."""
    path = find_file(root, *LISTS["texts"])
    if path is not None:
        rows, drops = _queries(path, "Text", categories)
        notes = []
    else:
        examples = {name: text for name, text in EXAMPLES.items() if name in categories}
        rows, drops = pd.DataFrame(examples.items(), columns=["category", "Text"]), []
        missing = f"{'/'.join((str(root), *LISTS['texts']))} is not there"
        notes = [f"{missing}: the texts of Table 5, {len(examples)} of them, are searched by"]
    number = rows.groupby("category", sort=False).cumcount() + 1
    name = rows["category"].str.lower().str.replace(" ", "_") + "_" + number.astype("str")
    texts = pd.DataFrame({"query_id": name, "category": rows["category"], "text": rows["Text"]})
    return texts.reset_index(drop=True), drops, notes
