"""The RSNA Pneumonia Detection Challenge copy, in Kaggle's stage 2 layout.

8-bit JPEG baseline DICOMs with little in the header, box rows in pixels of the square image, class
rows repeated as often as label rows, ids that are UUIDs of images and not of patients. Beside them
lie the lists of MRM (Zhou et al., 2023), which have the labels of the test images.
"""

import functools
from pathlib import Path

import numpy as np

from cxrflow.phantom.drawing import draw
from cxrflow.phantom.rsna import OPACITY, RsnaCase, make_rsna_case
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers import dicom_file
from cxrflow.phantom.writers.folder import each, write_dataset, write_table

TRAIN, TEST = "stage_2_train_images", "stage_2_test_images"
LISTS = {"train": "train_list.txt", "validate": "val_list.txt", "test": "test_list.txt"}
_SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
_SPACINGS = ("0.143", "0.168", "0.139", "0.171", "0.194311")
#: One test image for so many training images; published are 9, enlarged for a small hospital.
_TRAIN_PER_TEST = 3
#: Share of the training images in the list for validation; published are 1,500 of 26,684.
_VALIDATION = 0.1

Box = tuple[float, float, float, float]


def _write_image(
    output: Path, settings: HospitalSettings, index: int
) -> tuple[str, str, list[Box]]:
    """One image; its id, class and boxes. Indices from ``rsna_images`` on are test images."""
    case = make_rsna_case(settings, index)
    drawing = draw(case.patient, case.study, case.acquisition, settings.image_size)
    boxes = [box for key in case.boxed for box in drawing.boxes.get(key, ())]
    pixels = np.rint(drawing.image * 255).astype(np.uint8)
    made = _header(case)
    dicom_file.set_pixels(made, pixels, 8, inverse=False)
    folder = TRAIN if index < settings.rsna_images else TEST
    dicom_file.save(made, output / folder / f"{case.patient_id}.dcm")
    return case.patient_id, case.label, [_floats(*box) for box in sorted(boxes)]


def _floats(x: int, y: int, width: int, height: int) -> Box:
    return float(x), float(y), float(width), float(height)


def _header(case: RsnaCase) -> dicom_file.FileDataset:
    view = case.acquisition.view
    made = dicom_file.new_file(_SECONDARY_CAPTURE, dicom_file.uid(case.patient_id), "jpeg_baseline")
    made.SpecificCharacterSet = "ISO_IR 100"
    made.StudyDate, made.StudyTime = "19010101", "000000.00"
    made.AccessionNumber = ""
    made.Modality = "CR"
    made.ConversionType = "WSD"
    made.ReferringPhysicianName = ""
    made.SeriesDescription = f"view: {view}"
    made.PatientName = made.PatientID = case.patient_id
    made.PatientBirthDate = ""
    made.PatientSex = case.patient.sex
    made.PatientAge = f"{case.patient.age:03d}Y"
    made.BodyPartExamined = "CHEST"
    made.ViewPosition = view
    made.StudyInstanceUID = dicom_file.uid(case.patient_id, "study")
    made.SeriesInstanceUID = dicom_file.uid(case.patient_id, "series")
    made.StudyID, made.SeriesNumber, made.InstanceNumber = "", "1", "1"
    made.PatientOrientation = ""
    spacing = _SPACINGS[case.acquisition.seed % len(_SPACINGS)]
    made.PixelSpacing = [spacing, spacing]
    return made


def write_rsna(settings: HospitalSettings, output: str | Path, threads: int = 1) -> bool:
    """Write images and tables into ``output``; False when they are there already."""

    def build(folder: Path) -> dict[str, int]:
        (folder / TRAIN).mkdir()
        (folder / TEST).mkdir()
        tests = max(2, settings.rsna_images // _TRAIN_PER_TEST)
        one = functools.partial(_write_image, folder, settings)
        cases = list(each(one, range(settings.rsna_images + tests), threads, "rsna"))
        # The published order is no order of anything; that of the ids is none, either.
        known = sorted(cases[: settings.rsna_images])
        tested = sorted(cases[settings.rsna_images :])
        labels: list[tuple[object, ...]] = []
        classes: list[tuple[object, ...]] = []
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
        validated = max(1, round(_VALIDATION * len(known)))
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

    options = {"images_per_test_image": _TRAIN_PER_TEST, "validation_share": _VALIDATION}
    return write_dataset("rsna", settings, output, build, options=options)
