"""The MIMIC-CXR-JPG copy: metadata, split and label tables, and on request the JPGs.

The JPGs are made of the DICOM files of the copy ``mimic_cxr``, which lies in the folder beside.

Columns, their order and their quirks as published (StudyTime is a number without leading zeros,
the split table has the study before the subject, one study lacks labels and one has only blanks).
CheXpert labels are those of the report's section; NegBio's differ in a few uncertain mentions.
"""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydicom import dcmread

from cxr_files.errors import InputError
from cxr_hospital.acquisition import Acquisition
from cxr_hospital.canvas import image_shape
from cxr_hospital.patient import Study, make_patient, of_mimic_cxr
from cxr_hospital.report import labels_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording.examination import procedure
from cxr_hospital.writers import mimic_cxr
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_table

TABLES = ("metadata", "split", "chexpert", "negbio")
_KEY = ("subject_id", "study_id")
JPEG_QUALITY = 95
#: Shares of patients in the official split (64,586 / 500 / 293), enlarged for a small hospital.
_VALIDATE, _TEST = 0.05, 0.05
_SPLIT_STREAM, _NEGBIO_STREAM = 41, 42


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


Record = dict[str, Any]


def _metadata(study: Study, image: Acquisition, size: int) -> Record:
    rows, columns = image_shape(image.aspect, size)
    return {
        "dicom_id": image.image_id,
        "subject_id": study.subject_id,
        "study_id": study.study_id,
        "PerformedProcedureStepDescription": procedure(study),
        "ViewPosition": image.view or None,
        "Rows": rows,
        "Columns": columns,
        "StudyDate": int(mimic_cxr.study_date(study)),
        "StudyTime": float(mimic_cxr.study_time(study)),
        "ProcedureCodeSequence_CodeMeaning": procedure(study),
        "ViewCodeSequence_CodeMeaning": mimic_cxr.VIEW_CODES.get(image.view),
        "PatientOrientationCodeSequence_CodeMeaning": mimic_cxr.posture(image) or None,
    }


def _patient_rows(
    output: Path, settings: HospitalSettings, images: bool, index: int
) -> list[list[Record]]:
    """Rows of metadata, split and both tables of labels."""
    patient = make_patient(settings, index)
    draw = np.random.default_rng([settings.seed, index, _SPLIT_STREAM]).random()
    split = "validate" if draw < _VALIDATE else "test" if draw < _VALIDATE + _TEST else "train"
    rng = np.random.default_rng([settings.seed, index, _NEGBIO_STREAM])
    tables: list[list[Record]] = [[], [], [], []]
    metadata, splits, chexpert, negbio = tables
    for study in patient.studies:
        labels = labels_of(settings, patient, study).items()
        states = {name: None if state is None else float(state) for name, state in labels}
        key = {"subject_id": study.subject_id, "study_id": study.study_id}
        chexpert.append(key | states)
        # NegBio reads some hedges as certain.
        hedged = [name for name, state in labels if state == -1 and rng.random() < 0.3]
        negbio.append(key | states | dict.fromkeys(hedged, 1.0))
        for image in study.images:
            metadata.append(_metadata(study, image, settings.image_size))
            ids = {"study_id": study.study_id, "subject_id": study.subject_id}
            splits.append({"dicom_id": image.image_id, **ids, "split": split})
        if images:
            _write_images(output, study)
    return tables


def _write_images(output: Path, study: Study) -> None:
    place = mimic_cxr.study_folder(study)
    (output / place).mkdir(parents=True, exist_ok=True)
    for image in study.images:
        source = output.parent / "mimic_cxr" / place / f"{image.image_id}.dcm"
        try:
            values = dcmread(source).pixel_array
        except FileNotFoundError:
            raise InputError(
                f"{source}: not found; the JPGs are made of the same hospital's DICOM files: write "
                f"--layout mimic_cxr to {output.parent / 'mimic_cxr'} first"
            ) from None
        grey = Image.fromarray(to_jpg(values, image.monochrome1))
        grey.save(output / place / f"{image.image_id}.jpg", "JPEG", quality=JPEG_QUALITY)


def _with_gaps(rows: list[Record]) -> list[Record]:
    """Leave one study out and blank another, as a few are in the published tables."""
    if len(rows) < 10:
        return rows
    missing, blank = len(rows) // 3, len(rows) // 2
    return [
        dict.fromkeys(row) | {name: row[name] for name in _KEY} if number == blank else row
        for number, row in enumerate(rows)
        if number != missing
    ]


@dataset_writer(images=False)
def write_mimic_cxr_jpg(
    folder: Path, settings: HospitalSettings, threads: int, images: bool
) -> Counts:
    """Write the tables, and the JPGs if ``images``, of the DICOM files in ``../mimic_cxr``."""
    indices = of_mimic_cxr(settings)
    patients = each(indices, threads, "mimic_cxr_jpg", _patient_rows, folder, settings, images)
    tables = [
        sorted(chain(*rows), key=lambda row: [row.get(name) for name in (*_KEY, "dicom_id")])
        for rows in zip(*patients, strict=True)
    ]
    for name, rows in zip(TABLES, tables, strict=True):
        gapped = _with_gaps(rows) if name in ("chexpert", "negbio") else rows
        path = folder / f"mimic-cxr-2.0.0-{name}.csv.gz"
        write_table(path, tuple(gapped[0]), [tuple(row.values()) for row in gapped])
    if settings.followed is not None:
        mimic_cxr.write_image_truth(folder, settings)
    return {
        "patients": len(indices),
        "studies": len(tables[2]),
        "images": len(tables[0]),
        "image_files": len(tables[0]) if images else 0,
    }
