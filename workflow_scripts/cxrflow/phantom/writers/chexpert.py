"""The CheXpert copy: train, valid and test images as JPG, and their lists.

Paths begin with the small release's name, as published. test_labels.csv, a separate download,
lies beside the other two.
"""

from pathlib import Path

from cxrflow.phantom.acquisition import Acquisition
from cxrflow.phantom.canvas import grey
from cxrflow.phantom.chexpert import OBSERVATIONS, Record, labels_of, make_chexpert_patient, records
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import Counts, Row, dataset_writer, each, write_table

COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *OBSERVATIONS)
LISTS = {"train": "train.csv", "valid": "valid.csv", "test": "test_labels.csv"}
PREFIX = "CheXpert-v1.0-small/"
JPEG_QUALITY = 92


def image_path(record: Record, image: Acquisition) -> str:
    """Path of the image file in the data set's folder."""
    return f"{record.split}/{image.image_id}.jpg"


def _write_patient(
    output: Path, settings: HospitalSettings, record: Record
) -> tuple[str, list[Row]]:
    """Write the images of a patient; returns its split and its rows of the list."""
    patient = make_chexpert_patient(settings, record)
    sex = {"F": "Female", "M": "Male"}[patient.sex]
    rows: list[Row] = []
    for number, study in enumerate(patient.studies):
        labels = labels_of(settings, record, patient, number)
        values = tuple(labels[name] for name in OBSERVATIONS)
        for image in study.images:
            path = output / image_path(record, image)
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = draw(patient, study, image, settings.image_size).image
            grey(pixels).save(path, "JPEG", quality=JPEG_QUALITY)
            if record.split == "test":
                rows.append((image_path(record, image), *values))
                continue
            view = (image.projection,) if image.frontal else (None,)
            side = "Frontal" if image.frontal else "Lateral"
            listed_path = PREFIX + image_path(record, image)
            rows.append((listed_path, sex, patient.age, side, *view, *values))
    return record.split, rows


@dataset_writer()
def write_chexpert(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images and lists."""
    lists: dict[str, list[Row]] = {split: [] for split in LISTS}
    patients = records(settings)
    for split, rows in each(patients, threads, "chexpert", _write_patient, folder, settings):
        lists[split] += rows
    for split, name in LISTS.items():
        columns = ("Path", *OBSERVATIONS) if split == "test" else COLUMNS
        write_table(folder / name, columns, lists[split])
    uncertain = sum(-1.0 in row for row in lists["train"])
    images = {f"{split}_images": len(rows) for split, rows in lists.items()}
    return {"patients": len(patients), **images, "uncertain_images": uncertain}
