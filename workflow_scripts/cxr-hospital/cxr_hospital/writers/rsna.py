"""The RSNA Pneumonia Detection Challenge copy: another hospital, in Kaggle's stage 2 layout.

Three classes as in ``stage_2_detailed_class_info.csv``. 'Lung Opacity' holds pneumonia (mostly),
consolidation or lung opacity, whose boxes are the targets; 'No Lung Opacity / Not Normal' holds
other findings; the look (gamma, noise, sharpness, collimation, 8 bits) is not that of MIMIC-CXR.
8-bit JPEG baseline DICOMs with little in the header, box rows in pixels of the square image, class
rows repeated as often as label rows, ids that are UUIDs of images and not of patients. Beside them
lie the lists of MRM (Zhou et al., 2023), which have the labels of the test images.
"""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from cxr_files.atomic import write_json
from cxr_hospital import dicom_file
from cxr_hospital.acquisition import Acquisition, sample_acquisition
from cxr_hospital.course import Finding, first_findings, sample_finding
from cxr_hospital.drawing import draw
from cxr_hospital.patient import Patient, Study, dicom_id, with_body
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, each, write_table

NORMAL, NOT_NORMAL, OPACITY = "Normal", "No Lung Opacity / Not Normal", "Lung Opacity"
_OPACITIES = {"Pneumonia": 0.7, "Consolidation": 0.15, "Lung Opacity": 0.15}
_OTHERS = {
    "Pleural Effusion": 0.22,
    "Pneumothorax": 0.18,
    "Cardiomegaly": 0.22,
    "Atelectasis": 0.16,
    "Lung Lesion": 0.12,
    "Fracture": 0.10,
}
TRAIN, TEST = "stage_2_train_images", "stage_2_test_images"
LISTS = {"train": "train_list.txt", "validate": "val_list.txt", "test": "test_list.txt"}
_SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
_BLANK = (
    *("AccessionNumber", "PatientBirthDate", "PatientOrientation", "ReferringPhysicianName"),
    "StudyID",
)
_SPACINGS = ("0.143", "0.168", "0.139", "0.171", "0.194311")
#: A second random world: RSNA patient 0 is not MIMIC-CXR patient 0.
_STREAM = 77


@dataclass(frozen=True)
class RsnaCase:
    """One image: its UUID, its class, the state it is drawn from, and which findings are boxed."""

    patient_id: str
    label: str
    patient: Patient
    study: Study
    acquisition: Acquisition
    boxed: tuple[int, ...]


def make_rsna_case(settings: HospitalSettings, index: int) -> RsnaCase:
    """Draw image ``index`` (from 0) of the RSNA copy, independent of all others."""
    body, course, camera = (
        np.random.default_rng([settings.seed, index, stream, _STREAM]) for stream in range(3)
    )
    draw = course.random()
    findings: list[Finding] = []
    if draw < settings.rsna_opacity_share:
        label = OPACITY
        findings = first_findings(course, 1 + int(course.random() < 0.35), _OPACITIES)
        findings += first_findings(course, int(course.random() < 0.4), _OTHERS, findings, 3)
    elif draw < settings.rsna_opacity_share + settings.rsna_not_normal_share:
        label = NOT_NORMAL
        findings = first_findings(course, 1 + int(course.random() < 0.25), _OTHERS)
    else:
        label = NORMAL
    if label != NORMAL and course.random() < settings.device_share:
        findings.append(sample_finding(course, "Support Devices", 9))
    projection = "AP" if camera.random() < 0.46 else "PA"
    name = dicom_id(settings.seed, "rsna", index)
    acquisition = replace(
        sample_acquisition(camera, settings, name, projection, look="rsna"),
        view=projection,
        aspect=1.0,
        bits=8,
        monochrome1=False,
        transfer_syntax="explicit_le",
    )
    time = datetime(1901, 1, 1)
    study = Study(index, index, time, tuple(findings), {}, (), (acquisition,))
    patient = with_body(body, index, index, [study])
    patient_id = str(uuid.UUID(bytes=body.bytes(16), version=4))
    boxed = tuple(f.key for f in findings if f.name in _OPACITIES)
    return RsnaCase(patient_id, label, patient, study, acquisition, boxed)


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


def image_count(settings: HospitalSettings, images_per_test_image: int = 3) -> int:
    """Images of the challenge's training and test parts."""
    return settings.rsna_images + max(2, settings.rsna_images // images_per_test_image)


def nih_name(index: int) -> str:
    """The name of image ``index`` (from 0) in the NIH copy, where each has a patient of its own."""
    return f"{index + 1:08d}_000.png"


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
    indices = range(image_count(settings, images_per_test_image))
    cases = list(each(indices, threads, "rsna", _write_image, folder, settings))
    if settings.rsna_mapping:
        # Which image of NIH each image of the challenge is, as its publisher says.
        pairs = [
            {"subset_img_id": uid, "img_id": nih_name(n)} for n, (uid, _, _) in enumerate(cases)
        ]
        write_json(folder / "pneumonia-challenge-dataset-mappings_2018.json", pairs)
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
    write_table(folder / "stage_2_detailed_class_info.csv", ("patientId", "class"), classes)
    guess = " ".join(["0.5", *[str(settings.image_size // 4)] * 4])
    submission = [(patient, guess) for patient, _, _ in tested]
    columns = ("patientId", "PredictionString")
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
