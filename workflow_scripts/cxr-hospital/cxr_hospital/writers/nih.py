"""The NIH ChestX-ray14 copy: the RSNA copy's images under NIH's names, and patients of its own.

Labels are true. Mass and Nodule are kinds of Lung Lesion, Infiltration is Lung Opacity, Effusion is
Pleural Effusion, Pleural_Thickening is Pleural Other. A quarter of the patients is in the official
test list; some of their findings have boxes. With ``rsna_mapping`` the RSNA copy lists which of
these images its own are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from cxr_hospital.acquisition import Acquisition, sample_acquisition
from cxr_hospital.canvas import grey
from cxr_hospital.course import Finding, first_findings
from cxr_hospital.drawing import draw
from cxr_hospital.patient import Patient, Study, with_body
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, each, write_table
from cxr_hospital.writers.rsna import image_count, make_rsna_case, nih_name

#: How often a new finding is each; rare ones are less rare than in the published set, where Hernia
#: is on 227 of 112,120 images.
_ONSET: Mapping[str, float] = {
    **{"Lung Opacity": 0.20, "Pleural Effusion": 0.14, "Atelectasis": 0.13, "Lung Lesion": 0.13},
    **{"Pneumothorax": 0.08, "Consolidation": 0.07, "Pleural Other": 0.06, "Cardiomegaly": 0.05},
    **{"Emphysema": 0.04, "Edema": 0.04, "Fibrosis": 0.03, "Pneumonia": 0.02, "Hernia": 0.01},
}
_NAMES = {
    "Lung Opacity": "Infiltration",
    "Pleural Effusion": "Effusion",
    "Pleural Other": "Pleural_Thickening",
}
_UNNAMED = ("Fracture", "Support Devices")
_BOXED = {
    **{"Infiltration": "Infiltrate"},  # as the published list spells it
    **{name: name for name in ("Atelectasis", "Cardiomegaly", "Effusion", "Pneumonia")},
    **{name: name for name in ("Pneumothorax", "Mass", "Nodule")},
}
_COLUMNS = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
_FIRST_OWN = 20_001  # of the patients; those before are RSNA's
_STREAM = 78
#: One patient in so many is in the official test list, one of its images in so many has boxes.
_TEST, _WITH_BOXES = 4, 2


@dataclass(frozen=True)
class NihImage:
    """An image: its name, its patient's number, and the state that it is drawn from."""

    name: str
    number: int
    patient: Patient
    study: Study
    acquisition: Acquisition


def label_of(finding: Finding) -> str | None:
    """NIH's name of a finding; None if it has none."""
    if finding.name == "Lung Lesion":
        return finding.kind.capitalize()
    return None if finding.name in _UNNAMED else _NAMES.get(finding.name, finding.name)


def nih_images(settings: HospitalSettings, number: int) -> list[NihImage]:
    """The images of a patient: one of RSNA's, or one to three of a patient of its own."""
    if number < _FIRST_OWN:
        case = make_rsna_case(settings, number - 1)
        name = nih_name(number - 1)
        return [NihImage(name, number, case.patient, case.study, case.acquisition)]
    body, course, camera = (
        np.random.default_rng([settings.seed, number, stream, _STREAM]) for stream in range(3)
    )
    images = []
    for follow_up in range(int(course.integers(1, 4))):
        count = int(course.choice(3, p=(0.45, 0.37, 0.18)))
        findings = tuple(first_findings(course, count, _ONSET))
        projection = "AP" if camera.random() < 0.4 else "PA"
        image = sample_acquisition(camera, settings, "", projection, look="rsna")
        image = replace(image, view=projection, aspect=1.0, bits=8, monochrome1=False)
        study = Study(number, follow_up, datetime(1901, 1, 1), findings, {}, (), (image,))
        images.append((f"{number:08d}_{follow_up:03d}.png", study, image))
    patient = with_body(body, number, number, [study for _, study, _ in images])
    return [NihImage(name, number, patient, study, image) for name, study, image in images]


def _write_patient(
    output: Path, settings: HospitalSettings, number: int
) -> list[tuple[str, Row, list[Row]]]:
    """The part, the row and the boxes of each of a patient's images."""
    rows: list[tuple[str, Row, list[Row]]] = []
    tested = number % _TEST == 0
    for image in nih_images(settings, number):
        drawing = draw(image.patient, image.study, image.acquisition, settings.image_size)
        folder = output / f"images_{1 + number % 2:03d}" / "images"
        grey(drawing.image).save(folder / image.name)
        by_key = {f.key: label_of(f) for f in image.study.findings}
        labels = sorted({label for label in by_key.values() if label is not None})
        side = settings.image_size
        follow_up = int(image.name[9:12])
        about = (number, image.patient.age, image.patient.sex, image.acquisition.view)
        size = (4 * side, 4 * side, 0.143, 0.143)
        row = (image.name, "|".join(labels) or "No Finding", follow_up, *about, *size)
        boxes: list[Row] = [
            (image.name, _BOXED[str(label)], *map(float, box))
            for key, label in by_key.items()
            if label in _BOXED
            for box in drawing.boxes.get(key, ())
        ]
        boxed = tested and image.acquisition.seed % _WITH_BOXES == 0
        rows.append(("test" if tested else "train_val", row, boxes if boxed else []))
    return rows


@dataset_writer()
def write_nih(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images, table, lists and boxes."""
    for number in (1, 2):
        (folder / f"images_{number:03d}" / "images").mkdir(parents=True)
    numbers = [
        *range(1, image_count(settings) + 1),
        *range(_FIRST_OWN, _FIRST_OWN + settings.nih_patients),
    ]
    patients = list(each(numbers, threads, "nih", _write_patient, folder, settings))
    images = [image for rows in patients for image in rows]
    write_table(folder / "Data_Entry_2017_v2020.csv", _COLUMNS.split(","), [i[1] for i in images])
    boxes = [box for _, _, of_image in images for box in of_image]
    header = ("Image Index", "Finding Label", "Bbox [x", "y", "w", "h]", "", "", "")
    write_table(folder / "BBox_List_2017.csv", header, boxes)
    parts = {"train_val": "train_val_list.txt", "test": "test_list.txt"}
    for part, name in parts.items():
        names = [str(row[0]) for of, row, _ in images if of == part]
        (folder / name).write_text("\n".join([*names, ""]), encoding="utf-8")
    tested = sum(part == "test" for part, _, _ in images)
    return {"images": len(images), "test_images": tested, "boxes": len(boxes)}
