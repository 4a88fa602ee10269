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
    made = _header(case)
    dicom_file.set_pixels(made, pixels, 8, inverse=False)
    folder = TRAIN if index < settings.rsna_images else TEST
    dicom_file.save(made, output / folder / f"{case.patient_id}.dcm")
    return case.patient_id, case.label, [tuple(map(float, box)) for box in sorted(boxes)]


def _header(case: RsnaCase) -> dicom_file.FileDataset:
    view = case.acquisition.view
    made = dicom_file.new_file(_SECONDARY_CAPTURE, dicom_file.uid(case.patient_id), "jpeg_baseline")
    for name in _BLANK:
        setattr(made, name, "")
    made.SpecificCharacterSet = "ISO_IR 100"
    made.StudyDate, made.StudyTime = "19010101", "000000.00"
    made.Modality = "CR"
    made.ConversionType = "WSD"
    made.SeriesDescription = f"view: {view}"
    made.PatientName = made.PatientID = case.patient_id
    made.PatientSex = case.patient.sex
    made.PatientAge = f"{case.patient.age:03d}Y"
    made.BodyPartExamined = "CHEST"
    made.ViewPosition = view
    made.StudyInstanceUID = dicom_file.uid(case.patient_id, "study")
    made.SeriesInstanceUID = dicom_file.uid(case.patient_id, "series")
    made.SeriesNumber = made.InstanceNumber = "1"
    spacing = _SPACINGS[case.acquisition.seed % len(_SPACINGS)]
    made.PixelSpacing = [spacing, spacing]
    return made


@dataset_writer(images_per_test_image=3, validation_share=0.1)
def write_rsna(
    folder: Path,
    settings: HospitalSettings,
    threads: int,
    images_per_test_image: int,
    validation_share: float,
) -> Counts:
    """Write images and tables.

    There is one test image for so many training images; published are 9, enlarged for a small
    hospital. The share is that of the training images in the list for validation; published are
    1,500 of 26,684.
    """
    (folder / TRAIN).mkdir()
    (folder / TEST).mkdir()
    tests = max(2, settings.rsna_images // images_per_test_image)
    indices = range(settings.rsna_images + tests)
    cases = list(each(indices, threads, "rsna", _write_image, folder, settings))
    # The published order is no order of anything; that of the ids is none, either.
    known = sorted(cases[: settings.rsna_images])
    tested = sorted(cases[settings.rsna_images :])
    labels: list[Row] = []
    classes: list[Row] = []
    for patient, label, boxes in known:
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
    validated = max(1, round(validation_share * len(known)))
    parts = {"validate": known[:validated], "train": known[validated:], "test": tested}
    for part, name in LISTS.items():
        images = TEST if part == "test" else TRAIN
        lines = [f"{images}/{one}.dcm {int(label == OPACITY)}" for one, label, _ in parts[part]]
        (folder / name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return {
        "train_images": len(known),
        "test_images": len(tested),
        "positive_images": sum(label == OPACITY for _, label, _ in known),
        "boxes": sum(len(boxes) for _, _, boxes in known),
    }
