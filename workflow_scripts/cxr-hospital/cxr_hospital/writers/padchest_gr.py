"""The PadChest-GR copy: sentences with boxes on images of the PadChest copy, and their priors.

Patients and images are the PadChest copy's. As published, boxes are shares of width and height, ids
of studies have more digits than a float holds, a sentence may stand twice on an image, texts have
stray blanks, and a sentence that denies a finding has neither boxes nor labels.
"""

from pathlib import Path
from typing import Any

import numpy as np

from cxr_files.atomic import write_json
from cxr_hospital.canvas import deep_grey, image_shape
from cxr_hospital.course import GROUNDED
from cxr_hospital.drawing import draw, finding_boxes
from cxr_hospital.patient import Patient, Study
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.statements import phrase
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, each, write_table
from cxr_hospital.writers.padchest import name_of, padchest_patient

REPORTS, TABLE = "grounded_reports_20240819.json", "master_table.csv"
COLUMNS = (
    *("StudyID", "ImageID", "label", "boxes_count", "extra_boxes_count", "locations"),
    *("prior_study", "progression_status", "prior_imageID", "sentence_en", "sentence_es"),
    *("study_is_benchmark", "study_is_validation", "split", "PatientID", "patient_is_benchmark"),
    *("PatientBirth", "PatientSex_DICOM", "StudyDate_DICOM", "StudyDate", "PatientAge"),
    *("label_group", "Year"),
)
IMAGES, PRIORS = "PadChest_GR", "PadChest_GR_prior "  # one download's folder ends in a blank
_PARTS = (("train", 0.7), ("validation", 0.8), ("test", 1.0))
_TWICE = 0.1  # of the sentences
_READ_TWICE = 1 / 3
_STREAM = 139
Grounded = tuple[list[dict[str, Any]], list[Row]]


def study_id(patient: Patient, study: Study) -> str:
    """An id of 21 digits."""
    return f"{patient.index:010d}{study.study_id:011d}"


def _sentence(text: str, **values: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"boxes": [], "extra_boxes": [], "labels": [], "locations": []}
    return {
        "sentence_en": text, "sentence_es": text, "abnormal": bool(values), **empty,
        "progression": None, **values,
    }  # fmt: skip


def _findings(
    settings: HospitalSettings, patient: Patient, study: Study, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """The sentences of a study's frontal image."""
    image = study.images[0]
    height, width = image_shape(image.aspect, settings.image_size)
    boxes = finding_boxes(patient, study, image, settings.image_size)
    names = [finding.name for finding in study.findings]
    reader = np.random.default_rng([settings.seed, patient.index, 2, _STREAM])
    sentences = []
    for finding in study.findings:
        if finding.name not in GROUNDED or not boxes.get(finding.key):
            continue
        shares = [
            [x / width, y / height, min(1.0, (x + w) / width), min(1.0, (y + h) / height)]
            for x, y, w, h in boxes[finding.key]
        ]
        text = phrase(finding, rng, alone=names.count(finding.name) == 1)
        grounded = _sentence(
            f" {text}. ",
            boxes=shares,
            extra_boxes=_second_reading(shares, reader),
            labels=[name_of(finding)[0]],
        )
        sentences += [grounded, grounded] if rng.random() < _TWICE else [grounded]
    return [*sentences, _sentence("There is no pneumoperitoneum.")]


def _second_reading(boxes: list[list[float]], rng: np.random.Generator) -> list[list[float]]:
    """The boxes as a second reader draws them, of a third of the sentences: each side elsewhere."""
    if rng.random() >= _READ_TWICE:
        return []
    moved = np.clip(np.array(boxes) + rng.normal(0, 0.02, (len(boxes), 4)), 0, 1)
    ends = np.maximum(moved[:, 2:], moved[:, :2] + 0.02).clip(max=1)
    return np.hstack([moved[:, :2].clip(max=0.97), ends]).tolist()


def _write_patient(output: Path, settings: HospitalSettings, number: int) -> Grounded:
    """Write the frontal image of a patient's last study and that of the one before."""
    patient = padchest_patient(settings, number)
    rng = np.random.default_rng([settings.seed, number, 1, _STREAM])
    frontal = [study for study in patient.studies if study.images[0].view != "L"]
    study, before = frontal[-1], frontal[-2] if len(frontal) > 1 else None
    for folder, of in ((IMAGES, study), (PRIORS, before)):
        if of is not None:
            pixels = draw(patient, of, of.images[0], settings.image_size).image
            deep_grey(pixels).save(output / folder / of.images[0].image_id)
    sentences = _findings(settings, patient, study, rng)
    prior = None if before is None else before.images[0].image_id
    report = {
        "StudyID": study_id(patient, study),
        "ImageID": study.images[0].image_id,
        "PreviousStudyID": None if before is None else study_id(patient, before),
        "PreviousImageID": prior,
        "findings": sentences,
    }
    drawn = np.random.default_rng([settings.seed, number, _STREAM]).random()
    part = next(name for name, end in _PARTS if drawn < end)
    rows: list[Row] = []
    labelled = [s for s in sentences if s["labels"]] or [_sentence("", labels=["Normal"])]
    for sentence in labelled:
        values_by_column = {
            "StudyID": report["StudyID"],
            "ImageID": report["ImageID"],
            "label": sentence["labels"][0],
            "boxes_count": len(sentence["boxes"]),
            "sentence_en": sentence["sentence_en"],
            "split": part,
            "PatientID": f"pat{number:06d}",
            "PatientSex_DICOM": patient.sex,
            "StudyDate_DICOM": study.time.strftime("%Y%m%d"),
            "prior_imageID": prior,
            "label_group": sentence["labels"][0].capitalize(),
            "Year": study.time.year,
        }
        rows.append(tuple(values_by_column.get(name) for name in COLUMNS))
    return [report], rows


@dataset_writer()
def write_padchest_gr(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write reports, the table and images of every second patient of the PadChest copy."""
    for name in (IMAGES, PRIORS):
        (folder / name).mkdir()
    numbers = range(0, settings.padchest_patients, 2)
    written = list(each(numbers, threads, "padchest_gr", _write_patient, folder, settings))
    reports = [report for of, _ in written for report in of]
    rows = [row for _, of in written for row in of]
    write_json(folder / REPORTS, reports)
    write_table(folder / TABLE, COLUMNS, rows)
    boxes = sum(len(s["boxes"]) for report in reports for s in report["findings"])
    return {"studies": len(reports), "rows": len(rows), "boxes": boxes}
