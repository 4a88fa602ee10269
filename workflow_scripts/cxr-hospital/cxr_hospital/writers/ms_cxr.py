"""The MS-CXR copy: boxes and phrases on frontal images of the MIMIC-CXR copy (version 1.1.0).

One row a box; a phrase with two boxes has two rows. In the COCO file an image is listed once for
every category it has, as in the published one. The choice of patients and the split are independent
of the findings.
"""

from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxr_files.atomic import write_json
from cxr_hospital.canvas import Box, image_shape
from cxr_hospital.course import GROUNDED
from cxr_hospital.drawing import finding_boxes
from cxr_hospital.patient import make_patient
from cxr_hospital.progression import good_frontals
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_table
from cxr_hospital.writers.mimic_cxr import study_folder

NAME = "MS_CXR_Local_Alignment_v1.1.0"
COLUMNS = (
    *("dicom_id", "category_name", "label_text", "path", "x", "y", "w", "h"),
    *("image_width", "image_height", "split"),
)
_CHOICE_STREAM = 51
#: No class has more phrases than this many times the median class, or than this many in all.
_MOST, _ALWAYS_ALLOWED = 1.25, 5


class Phrase(NamedTuple):
    """One phrase on one image, with its boxes (x, y, width, height) in stored pixels."""

    dicom_id: str
    category: str
    text: str
    path: str
    boxes: tuple[Box, ...]
    width: int
    height: int
    split: str


def chosen_patients(settings: HospitalSettings) -> list[int]:
    """Indices of the patients in MS-CXR, at least one."""
    draws = np.array([_draws(settings, index)[0] for index in range(settings.patients)])
    chosen: list[int] = np.flatnonzero(draws < settings.ms_cxr_patient_share).tolist()
    return chosen or [int(np.argmin(draws))]


def _draws(settings: HospitalSettings, index: int) -> NDArray[np.float64]:
    """Two draws in [0, 1] of a patient: one chooses it, one its split."""
    return np.random.default_rng([settings.seed, index, _CHOICE_STREAM]).random(2)


def _phrases(settings: HospitalSettings, index: int) -> list[Phrase]:
    """The phrases of one patient: each finding with boxes on a study's first good frontal."""
    patient = make_patient(settings, index)
    draw = _draws(settings, index)[1]
    split = "train" if draw < 0.6 else "val" if draw < 0.75 else "test"
    phrases = []
    illustrated = [(study, good[0]) for study in patient.studies if (good := good_frontals(study))]
    for study, image in illustrated:
        boxes = finding_boxes(patient, study, image, settings.image_size)
        height, width = image_shape(image.aspect, settings.image_size)
        path = f"{study_folder(study)}/{image.image_id}.jpg"
        texts = dict(report_of(settings, patient, study).phrases)
        for finding in study.findings:
            if finding.key in texts and boxes.get(finding.key):
                fields = (image.image_id, finding.name, texts[finding.key], path)
                phrases.append(Phrase(*fields, tuple(boxes[finding.key]), width, height, split))
    return phrases


def _balanced(phrases: list[Phrase]) -> list[Phrase]:
    """Drop the last phrases of a class that has far more than the median class."""
    counts = {name: sum(p.category == name for p in phrases) for name in GROUNDED}
    most = max(_ALWAYS_ALLOWED, float(np.median(list(counts.values()))) * _MOST)
    numbers = {name: count(1) for name in GROUNDED}
    return [phrase for phrase in phrases if next(numbers[phrase.category]) <= most]


def _coco(phrases: list[Phrase]) -> dict[str, list[dict[str, object]]]:
    categories = {name: number for number, name in enumerate(GROUNDED, 1)}
    images: dict[tuple[str, str], dict[str, object]] = {}
    annotations: list[dict[str, object]] = []
    for phrase in phrases:
        entry = images.setdefault(
            (phrase.category, phrase.dicom_id),
            {
                "id": len(images) + 1,
                "file_name": f"{phrase.dicom_id}.jpg",
                "path": phrase.path,
                "width": phrase.width,
                "height": phrase.height,
            },
        )
        for box in phrase.boxes:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": entry["id"],
                    "category_id": categories[phrase.category],
                    "bbox": list(box),
                    "label_text": phrase.text,
                }
            )
    return {
        "images": list(images.values()),
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for name, number in categories.items()],
    }


@dataset_writer()
def write_ms_cxr(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the CSV and the COCO file."""
    patients = list(each(chosen_patients(settings), threads, "ms_cxr", _phrases, settings))
    balanced = _balanced([phrase for phrases in patients for phrase in phrases])
    balanced.sort(key=lambda phrase: (phrase.category, phrase.dicom_id))
    rows = [
        (p.dicom_id, p.category, p.text, p.path, *box, p.width, p.height, p.split)
        for p in balanced
        for box in p.boxes
    ]
    write_table(folder / f"{NAME}.csv", COLUMNS, rows)
    write_json(folder / f"{NAME}.json", _coco(balanced))
    return {
        "patients": sum(bool(phrases) for phrases in patients),
        "images": len({phrase.dicom_id for phrase in balanced}),
        "phrases": len(balanced),
        "boxes": len(rows),
    }
