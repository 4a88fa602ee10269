"""The MIMIC-CXR-JPG copy: metadata, split and label tables, and on request the JPGs.

The JPGs are made of the DICOM files of the copy ``mimic_cxr``, which lies in the folder beside.

Columns, their order and their quirks as published (StudyTime is a number without leading zeros,
the split table has the study before the subject, one study lacks labels and one has only blanks).
CheXpert labels are those of the report's section; NegBio's differ in a few uncertain mentions.
"""

from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom import dcmread

from cxrflow.errors import InputError
from cxrflow.phantom.acquisition import Acquisition
from cxrflow.phantom.canvas import image_shape
from cxrflow.phantom.grammar import OBSERVATIONS
from cxrflow.phantom.patient import Study, make_patient, of_mimic_cxr
from cxrflow.phantom.report import labels_of
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.wording.examination import procedure
from cxrflow.phantom.writers.folder import Counts, Row, dataset_writer, each, write_table
from cxrflow.phantom.writers.mimic_cxr import (
    VIEW_CODES,
    posture,
    study_date,
    study_folder,
    study_time,
    write_image_truth,
)

METADATA = (
    *("dicom_id", "subject_id", "study_id", "PerformedProcedureStepDescription", "ViewPosition"),
    *("Rows", "Columns", "StudyDate", "StudyTime", "ProcedureCodeSequence_CodeMeaning"),
    *("ViewCodeSequence_CodeMeaning", "PatientOrientationCodeSequence_CodeMeaning"),
)
LABELS = tuple(sorted(OBSERVATIONS.values()))
JPEG_QUALITY = 95
#: Shares of patients in the official split (64,586 / 500 / 293), enlarged for a small hospital.
_VALIDATE, _TEST = 0.05, 0.05
_SPLIT_STREAM, _NEGBIO_STREAM = 41, 42


def split_of(settings: HospitalSettings, index: int) -> str:
    """The patient's official split: train, validate or test."""
    draw_ = np.random.default_rng([settings.seed, index, _SPLIT_STREAM]).random()
    return "validate" if draw_ < _VALIDATE else "test" if draw_ < _VALIDATE + _TEST else "train"


def to_jpg(values: NDArray[np.uint16], inverse: bool) -> NDArray[np.uint8]:
    """The published processing: min-max to 8 bits, inversion, histogram equalisation."""
    grey = values.astype(np.float64) - values.min()
    grey = np.floor(grey / max(float(grey.max()), 1.0) * 255).astype(np.uint8)
    if inverse:
        grey = (255 - grey).astype(np.uint8)
    counts = np.bincount(grey.ravel(), minlength=256).cumsum()
    first = int(counts[counts > 0][0])
    spread = np.rint((counts - first) / max(int(counts[-1]) - first, 1) * 255)
    return np.clip(spread, 0, 255).astype(np.uint8)[grey]


def _metadata(study: Study, image: Acquisition, size: int) -> Row:
    rows, columns = image_shape(image.aspect, size)
    return (
        image.image_id,
        study.subject_id,
        study.study_id,
        procedure(study),
        image.view or None,
        rows,
        columns,
        int(study_date(study)),
        float(study_time(study)),
        procedure(study),
        VIEW_CODES.get(image.view),
        posture(image) or None,
    )


def _negbio(labels: dict[str, int | None], rng: np.random.Generator) -> dict[str, int | None]:
    """NegBio reads some hedges as certain."""
    return {
        name: 1 if value == -1 and rng.random() < 0.3 else value for name, value in labels.items()
    }


def _patient_rows(
    output: Path, settings: HospitalSettings, images: bool, index: int
) -> list[list[Row]]:
    """Rows of metadata, split and both tables of labels."""
    patient = make_patient(settings, index)
    split = split_of(settings, index)
    rng = np.random.default_rng([settings.seed, index, _NEGBIO_STREAM])
    tables: list[list[Row]] = [[], [], [], []]
    metadata, splits, chexpert, negbio = tables
    for study in patient.studies:
        labels = labels_of(settings, patient, study)
        negbio_labels = _negbio(labels, rng)
        key = (study.subject_id, study.study_id)
        chexpert.append((*key, *(_state(labels[name]) for name in LABELS)))
        negbio.append((*key, *(_state(negbio_labels[name]) for name in LABELS)))
        for image in study.images:
            metadata.append(_metadata(study, image, settings.image_size))
            splits.append((image.image_id, study.study_id, study.subject_id, split))
        if images:
            _write_images(output, study)
    return tables


def _state(value: int | None) -> float | None:
    return None if value is None else float(value)


def _write_images(output: Path, study: Study) -> None:
    folder = output / study_folder(study)
    folder.mkdir(parents=True, exist_ok=True)
    for image in study.images:
        source = output.parent / "mimic_cxr" / study_folder(study) / f"{image.image_id}.dcm"
        try:
            values = dcmread(source).pixel_array
        except FileNotFoundError:
            raise InputError(
                f"{source}: not found; the JPGs are made of the same hospital's DICOM files: write "
                f"--dataset mimic_cxr to {output.parent / 'mimic_cxr'} first"
            ) from None
        grey = Image.fromarray(to_jpg(values, image.monochrome1))
        grey.save(folder / f"{image.image_id}.jpg", "JPEG", quality=JPEG_QUALITY)


def _with_gaps(rows: list[Row]) -> list[Row]:
    """Leave one study out and blank another, as a few are in the published tables."""
    if len(rows) < 10:
        return rows
    blank = rows[len(rows) // 2]
    return [
        (*row[:2], *(None for _ in LABELS)) if row is blank else row
        for row in rows
        if row is not rows[len(rows) // 3]
    ]


@dataset_writer(images=False)
def write_mimic_cxr_jpg(
    folder: Path, settings: HospitalSettings, threads: int, images: bool
) -> Counts:
    """Write the tables, and the JPGs if ``images``, of the DICOM files in ``../mimic_cxr``."""
    indices = of_mimic_cxr(settings)
    patients = each(indices, threads, "mimic_cxr_jpg", _patient_rows, folder, settings, images)
    metadata, splits, chexpert, negbio = (
        list(chain(*tables)) for tables in zip(*patients, strict=True)
    )
    metadata.sort(key=lambda row: (row[1], row[2], row[0]))
    splits.sort(key=lambda row: (row[2], row[1], row[0]))
    chexpert.sort()
    negbio.sort()
    prefix = "mimic-cxr-2.0.0"
    write_table(folder / f"{prefix}-metadata.csv.gz", METADATA, metadata)
    columns: tuple[str, ...] = ("dicom_id", "study_id", "subject_id", "split")
    write_table(folder / f"{prefix}-split.csv.gz", columns, splits)
    columns = ("subject_id", "study_id", *LABELS)
    write_table(folder / f"{prefix}-chexpert.csv.gz", columns, _with_gaps(chexpert))
    write_table(folder / f"{prefix}-negbio.csv.gz", columns, _with_gaps(negbio))
    if settings.followed is not None:
        write_image_truth(folder, settings)
    return {
        "patients": len(indices),
        "studies": len(chexpert),
        "images": len(metadata),
        "image_files": len(metadata) if images else 0,
    }
