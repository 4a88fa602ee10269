"""MS-CXR-T v1.0.0: progression of five findings between two images, and pairs of sentences.

BioViL-T Appendix C. One row an image pair, a column a finding; a blank means that the finding is
not annotated. Images are named by paths, without ``files/`` and without an ending, and lie in
MIMIC-CXR. The sentences are paraphrases or contradictions in terms of progression; the column of
their subset (RadGraph, Swaps) is one that public loaders read, and may be absent.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, read_csv, require_file
from cxr_files.drops import Drop
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import DIRECTIONS, Request, Tables, shaped, without

LISTS = layout("ms_cxr_t").lists["tables"]
FINDINGS = ("Consolidation", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")
CATEGORIES = ("paraphrase", "contradiction")
# files/ and an ending are tolerated; the patient and the study stand in the folders.
_PLACE = r"p(?P<subject_id>\d+)/s(?P<study_id>\d+)/(?P<image_id>[^/.]+)(?:\.\w+)?$"


def read(root: Path, request: Request) -> Tables:
    """Read both tables. The images are not opened."""
    labels, studies, damage = _labels(require_file(root, *LISTS["images"]))
    pairs, lost = _sentences(require_file(root, *LISTS["sentences"]))
    return Tables(
        source=root,
        studies=shaped("studies", studies),
        progressions=labels,
        sentence_pairs=pairs,
        dropped={"progressions": damage, "sentence_pairs": lost},
        opened=False,
    )


def _column(finding: str) -> str:
    return finding.lower().replace(" ", "_")


def _labels(path: Path) -> tuple[pd.DataFrame, pd.DataFrame, list[Drop]]:
    """Return a row a label, the studies of both images, and the damage."""
    columns: dict[str, Kind] = {
        **{"dicom_id": "id", "subject_id": "bare", "study_id": "bare"},
        **{"previous_dicom_id": "id", "previous_study_id": "bare"},
        **{f"{_column(name)}_progression": "text" for name in FINDINGS},
    }
    quality: dict[str, Kind] = {f"{_column(name)}_label_quality": "text" for name in FINDINGS}
    rows, damage = read_csv(path, columns, quality)
    place = rows["dicom_id"].str.extract(_PLACE)
    before = rows["previous_dicom_id"].str.extract(_PLACE)
    tests = {
        "dicom_id names no patient and study": place["image_id"].isna(),
        "previous_dicom_id names no patient and study": before["image_id"].isna(),
        "dicom_id is of another patient or study than its row": (
            (place["subject_id"] != rows["subject_id"]) | (place["study_id"] != rows["study_id"])
        ),
        "the previous image is another patient's": before["subject_id"] != rows["subject_id"],
        "previous_dicom_id is of another study than its row": (
            before["study_id"] != rows["previous_study_id"]
        ),
    }
    tests = {f"{path.name}: {reason}": wrong for reason, wrong in tests.items()}
    rows, wrong = without(rows, rows["dicom_id"], tests)
    place, before = place.loc[rows.index], before.loc[rows.index]
    studies = pd.concat([place, before])[["study_id", "subject_id"]].drop_duplicates()
    pairs = place.join(before[["image_id", "study_id"]].add_prefix("prior_"))
    tables = [
        pairs.assign(
            finding=name,
            label=rows[f"{_column(name)}_progression"].str.strip().str.lower(),
            quality=rows[f"{_column(name)}_label_quality"].str.strip().str.lower(),
        )
        for name in FINDINGS
    ]
    long = pd.concat(tables).sort_index(kind="stable").dropna(subset="label")
    reason = f"{path.name}: label is none of {', '.join(DIRECTIONS)}"
    long, strange = without(long, long["image_id"], {reason: ~long["label"].isin(DIRECTIONS)})
    return shaped("progressions", long), studies, damage + wrong + strange


def _sentences(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    rows, damage = read_csv(
        path,
        {"sentence_1": "id", "sentence_2": "id", "category": "id"},
        {"subset_name": "text"},
    )
    label = rows["category"].str.lower()
    reason = f"{path.name}: category is none of {', '.join(CATEGORIES)}"
    rows, strange = without(rows, rows["category"], {reason: ~label.isin(CATEGORIES)})
    again = rows.duplicated()
    repeats = Drop.of("the same line again", rows.index[again])
    rows = rows[~again]
    number = rows.index.astype("str")
    values = {
        "sample_id": "test-" + number,
        "pair_id": number,
        "premise": rows["sentence_1"],
        "hypothesis": rows["sentence_2"],
        "label": label[rows.index],
        "split": "test",
        "subset": rows["subset_name"].str.strip(),
    }
    pairs = pd.DataFrame(values, dtype="str")
    return pairs.reset_index(drop=True), [*damage, *strange, repeats]
