"""The MS-CXR-T copy: progression of five findings between two images, and pairs of sentences.

Labels are the truth of the course (BioViL-T Appendix C), on images of the MIMIC-CXR copy's followed
patients. Of several images of a study the first good one is used, as if a radiologist had chosen.
Some labels have a second, blinded reading, which disagrees where the change is small. Image names
are paths without ``files/`` and suffix, as published.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from cxr_hospital.course import LEAST_CHANGE
from cxr_hospital.patient import followed, make_patient
from cxr_hospital.progression import FINDINGS, ImagePair, good_pairs, least_step, true_label
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.temporal_pairs import temporal_pairs
from cxr_hospital.writers.folder import (
    Counts,
    Row,
    dataset_writer,
    each,
    of_followed,
    write_table,
    write_truth,
)
from cxr_hospital.writers.mimic_cxr import study_folder

IMAGES = "MS_CXR_T_temporal_image_classification_v1.0.0.csv"
SENTENCES = "MS_CXR_T_temporal_sentence_similarity_v1.0.0.csv"
_SNAKE = {name: name.lower().replace(" ", "_") for name in FINDINGS}
COLUMNS = (
    *("dicom_id", "subject_id", "study_id", "previous_dicom_id", "previous_study_id"),
    *(f"{name}_progression" for name in _SNAKE.values()),
    *(f"{name}_label_quality" for name in _SNAKE.values()),
)
#: Changes of severity up to this are small enough to be read in two ways.
_BORDERLINE = LEAST_CHANGE + 0.1
_STREAM = 101


def _name(folder: str, image_id: str) -> str:
    return f"{folder.removeprefix('files/')}/{image_id}"


def _quality(pair: ImagePair, finding: str, draw: float, share: float) -> str:
    if draw >= share:
        return "one_expert"
    step = least_step(pair.prior_study, pair.study, finding)
    return "disagreement" if 0 < step <= _BORDERLINE else "multiple_experts"


def _patient_rows(settings: HospitalSettings, index: int) -> tuple[list[Row], list[Row]]:
    """Rows of the table, and the truth behind every label, of one patient."""
    share = of_followed(settings, "ms_cxr_t").second_reading_share
    rng = np.random.default_rng([settings.seed, index, _STREAM])
    rows: list[Row] = []
    truth: list[Row] = []
    for pair in good_pairs(make_patient(settings, index)):
        draws = dict(zip(FINDINGS, rng.random(len(FINDINGS)), strict=True))
        labels = {name: true_label(pair.study, name) for name in FINDINGS}
        if not any(labels.values()):
            continue
        quality = {
            name: _quality(pair, name, draws[name], share) if labels[name] else None
            for name in FINDINGS
        }
        images = (pair.current.image_id, pair.prior.image_id)
        rows.append(
            (
                _name(study_folder(pair.study), images[0]),
                pair.study.subject_id,
                pair.study.study_id,
                _name(study_folder(pair.prior_study), images[1]),
                pair.prior_study.study_id,
                *labels.values(),
                *quality.values(),
            )
        )
        truth += [
            (*images, name, label, least_step(pair.prior_study, pair.study, name))
            for name, label in labels.items()
            if label is not None
        ]
    return rows, truth


@dataset_writer(followed=True)
def write_ms_cxr_t(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write both tables."""
    patients = list(each(followed(settings), threads, "ms_cxr_t", _patient_rows, settings))
    rows = sorted((row for table, _ in patients for row in table), key=lambda row: str(row[0]))
    truth = [row for _, table in patients for row in table]
    write_table(folder / IMAGES, COLUMNS, rows)
    of_truth = ["image_id", "prior_image_id", "finding", "label", "step"]
    write_truth(folder, "progressions", pd.DataFrame(truth, columns=of_truth))
    pairs = temporal_pairs(settings, of_followed(settings, "ms_cxr_t").sentence_pairs)
    columns = ("subset_name", "sentence_1", "sentence_2", "category")
    sentence_rows = [(pair.subset, pair.first, pair.second, pair.category) for pair in pairs]
    write_table(folder / SENTENCES, columns, sentence_rows)
    return {
        "patients": len({row[1] for row in rows}),
        "image_pairs": len(rows),
        "labels": len(truth),
        "sentence_pairs": len(pairs),
    }
