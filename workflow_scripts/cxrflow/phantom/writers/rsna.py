"""The RSNA Pneumonia Detection Challenge copy, in Kaggle's stage 2 layout.

8-bit JPEG baseline DICOMs with little in the header, box rows in pixels of the square image, class
rows repeated as often as label rows, ids that are UUIDs of images and not of patients. Beside them
lie the lists of MRM (Zhou et al., 2023), which have the labels of the test images.
"""

from pathlib import Path

import numpy as np

from cxrflow.phantom.drawing import draw
from cxrflow.phantom.rsna import OPACITY, RsnaCase, make_rsna_case
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers import dicom_file
from cxrflow.phantom.writers.folder import Counts, Row, dataset_writer, each, write_table

TRAIN, TEST = "stage_2_train_images", "stage_2_test_images"
LISTS = {"train": "train_list.txt", "validate": "val_list.txt", "test": "test_list.txt"}
_SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
_BLANK = (
    *("AccessionNumber", "PatientBirthDate", "PatientOrientation", "ReferringPhysicianName"),
    "StudyID",
)
_SPACINGS = ("0.143", "0.168", "0.139", "0.171", "0.194311")


def _write_image(
    output: Path, settings: HospitalSettings, index: int
) -> tuple[str, str, list[Row]]:
    """One image; its id, class and boxes. Indices from ``rsna_images`` on are test images."""
    case = make_rsna_case(settings, index)
    drawing = draw(case.patient, case.study, case.acquisition, settings.image_size)
    boxes = [box for key in case.boxed for box in drawing.boxes.get(key, ())]
    pixels = np.rint(drawing.image * 255).astype(np.uint8)
    file = _header(case)
    dicom_file.set_pixels(file, pixels, 8, inverse=False)
    folder = TRAIN if index < settings.rsna_images else TEST
    dicom_file.save(file, output / folder / f"{case.patient_id}.dcm")
    return case.patient_id, case.label, [tuple(map(float, box)) for box in sorted(boxes)]


def _header(case: RsnaCase) -> dicom_file.FileDataset:
    view = case.acquisition.view
    file = dicom_file.new_file(_SECONDARY_CAPTURE, dicom_file.uid(case.patient_id), "jpeg_baseline")
    for name in _BLANK:
        setattr(file, name, "")
    file.SpecificCharacterSet = "ISO_IR 100"
    file.StudyDate, file.StudyTime = "19010101", "000000.00"
    file.Modality = "CR"
    file.ConversionType = "WSD"
    file.SeriesDescription = f"view: {view}"
    file.PatientName = file.PatientID = case.patient_id
    file.PatientSex = case.patient.sex
    file.PatientAge = f"{case.patient.age:03d}Y"
    file.BodyPartExamined = "CHEST"
    file.ViewPosition = view
    file.StudyInstanceUID = dicom_file.uid(case.patient_id, "study")
    file.SeriesInstanceUID = dicom_file.uid(case.patient_id, "series")
    file.SeriesNumber = file.InstanceNumber = "1"
    spacing = _SPACINGS[case.acquisition.seed % len(_SPACINGS)]
    file.PixelSpacing = [spacing, spacing]
    return file


@dataset_writer(images_per_test_image=3, validation_share=0.1)
def write_rsna(
    folder: Path,
    settings: HospitalSettings,
    threads: int,
    images_per_test_image: int,
    validation_share: float,
) -> Counts:
    """Write images and tables.

    ``images_per_test_image``: 9 as published; fewer give a small hospital enough test images.
    ``validation_share``: of the training images; published are 1,500 of 26,684.
    """
    (folder / TRAIN).mkdir()
    (folder / TEST).mkdir()
    tests = max(2, settings.rsna_images // images_per_test_image)
    indices = range(settings.rsna_images + tests)
    cases = list(each(indices, threads, "rsna", _write_image, folder, settings))
    # The published order is arbitrary; so is that of the ids.
    training = sorted(cases[: settings.rsna_images])
    tested = sorted(cases[settings.rsna_images :])
    labels: list[Row] = []
    classes: list[Row] = []
    for patient, label, boxes in training:
        target = int(label == OPACITY)
        for box in boxes if target and boxes else [(None,) * 4]:
            labels.append((patient, *box, target))
            classes.append((patient, label))
    columns: tuple[str, ...] = ("patientId", "x", "y", "width", "height", "Target")
    write_table(folder / "stage_2_train_labels.csv", columns, labels)
    columns = ("patientId", "class")
    write_table(folder / "stage_2_detailed_class_info.csv", columns, classes)
    middle = settings.image_size // 4
    guess = f"0.5 {middle} {middle} {middle} {middle}"
    columns = ("patientId", "PredictionString")
    submission = [(patient, guess) for patient, _, _ in tested]
    write_table(folder / "stage_2_sample_submission.csv", columns, submission)
    validated = max(1, round(validation_share * len(training)))
    splits = {"validate": training[:validated], "train": training[validated:], "test": tested}
    for split, name in LISTS.items():
        images = TEST if split == "test" else TRAIN
        lines = [f"{images}/{uid}.dcm {int(label == OPACITY)}" for uid, label, _ in splits[split]]
        (folder / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return {
        "train_images": len(training),
        "test_images": len(tested),
        "positive_images": sum(label == OPACITY for _, label, _ in training),
        "boxes": sum(len(boxes) for _, _, boxes in training),
    }
