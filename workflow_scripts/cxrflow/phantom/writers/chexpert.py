"""The CheXpert copy: train, valid and test images as JPG, and their lists.

Paths begin with the small release's name, as published. test_labels.csv, a download of its own,
lies beside the other two.
"""

from pathlib import Path

from cxrflow.phantom.acquisition import Acquisition
from cxrflow.phantom.canvas import grey
from cxrflow.phantom.chexpert import OBSERVATIONS, Member, labels_of, make_chexpert_patient, members
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import Counts, Row, dataset_writer, each, write_table

COLUMNS = ("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *OBSERVATIONS)
LISTS = {"train": "train.csv", "valid": "valid.csv", "test": "test_labels.csv"}
PREFIX = "CheXpert-v1.0-small/"
JPEG_QUALITY = 92


def image_path(member: Member, image: Acquisition) -> str:
    """The file, from the folder of the data set."""
    return f"{member.part}/{image.image_id}.jpg"


def _write_patient(
    output: Path, settings: HospitalSettings, member: Member
) -> tuple[str, list[Row]]:
    """The images of a patient; its part and its rows of the list."""
    patient = make_chexpert_patient(settings, member)
    sex = {"F": "Female", "M": "Male"}[patient.sex]
    rows: list[Row] = []
    for number, study in enumerate(patient.studies):
        labels = labels_of(settings, member, patient, number)
        values = tuple(labels[name] for name in OBSERVATIONS)
        for image in study.images:
            path = output / image_path(member, image)
            path.parent.mkdir(parents=True, exist_ok=True)
            drawn = draw(patient, study, image, settings.image_size).image
            grey(drawn).save(path, "JPEG", quality=JPEG_QUALITY)
            if member.part == "test":
                rows.append((image_path(member, image), *values))
                continue
            view = (image.projection,) if image.frontal else (None,)
            side = "Frontal" if image.frontal else "Lateral"
            named = PREFIX + image_path(member, image)
            rows.append((named, sex, patient.age, side, *view, *values))
    return member.part, rows


@dataset_writer()
def write_chexpert(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images and lists."""
    lists: dict[str, list[Row]] = {part: [] for part in LISTS}
    everybody = members(settings)
    for part, rows in each(everybody, threads, "chexpert", _write_patient, folder, settings):
        lists[part] += rows
    for part, name in LISTS.items():
        columns = ("Path", *OBSERVATIONS) if part == "test" else COLUMNS
        write_table(folder / name, columns, lists[part])
    uncertain = sum(-1.0 in row for row in lists["train"])
    images = {f"{part}_images": len(rows) for part, rows in lists.items()}
    return {"patients": len(everybody), **images, "uncertain_images": uncertain}
