"""The PadChest copy: a hospital in Spain, images of 16 bits, labels as lists, stemmed reports.

Patients have one to three studies of a frontal image and often a lateral one. Labels are true, with
the publisher's names of findings; a share of the rows was labelled by a network, which a reader of
physicians' labels leaves out. One image is cut off, one is missing, and two rows have no labels.
A few films are clipped or turned; none is overexposed or blurred.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cxr_hospital.acquisition import Acquisition, sample_acquisition
from cxr_hospital.canvas import deep_grey
from cxr_hospital.course import DEVICES, Finding, sample_course
from cxr_hospital.drawing import draw
from cxr_hospital.patient import Patient, Study, sample_times, with_body
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, each, write_table

TABLE = "PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv"
COLUMNS = (
    *("", "ImageID", "ImageDir", "StudyDate_DICOM", "StudyID", "PatientID", "PatientBirth"),
    *("PatientSex_DICOM", "ViewPosition_DICOM", "Projection", "MethodProjection", "Pediatric"),
    *("Modality_DICOM", "Manufacturer_DICOM", "PhotometricInterpretation_DICOM"),
    *("PixelRepresentation_DICOM", "PixelAspectRatio_DICOM", "SpatialResolution_DICOM"),
    *("BitsStored_DICOM", "WindowCenter_DICOM", "WindowWidth_DICOM", "Rows_DICOM"),
    *("Columns_DICOM", "XRayTubeCurrent_DICOM", "Exposure_DICOM", "ExposureInuAs_DICOM"),
    *("ExposureTime", "RelativeXRayExposure_DICOM", "ReportID", "Report", "MethodLabel"),
    *("Labels", "Localizations", "LabelsLocalizationsBySentence", "labelCUIS"),
    "LocalizationsCUIS",
)
#: Ranges (low, high) of this hospital's tone; black edges and grids are as in the MIMIC-CXR copy.
TONE: Mapping[str, tuple[float, float]] = {
    "gamma": (0.9, 1.2),
    "contrast": (0.95, 1.15),
    "exposure": (-0.08, 0.0),
    "noise": (0.006, 0.016),
    "blur": (0.001, 0.0025),
}
#: The publisher's name of a finding, and its word in the stemmed reports.
NAMES: Mapping[str, tuple[str, str]] = {
    "Atelectasis": ("atelectasis", "atelectasi"),
    "Cardiomegaly": ("cardiomegaly", "cardiomegali"),
    "Consolidation": ("consolidation", "consolid"),
    "Edema": ("pulmonary edema", "edem pulmon"),
    "Emphysema": ("emphysema", "enfisem"),
    "Enlarged Cardiomediastinum": ("mediastinal enlargement", "ensanch mediastin"),
    "Fibrosis": ("pulmonary fibrosis", "fibrosis pulmon"),
    "Hernia": ("hiatal hernia", "herni hiat"),
    "Lung Opacity": ("infiltrates", "infiltr"),
    "Pleural Effusion": ("pleural effusion", "derram pleural"),
    "Pleural Other": ("pleural thickening", "engros pleural"),
    "Pneumonia": ("pneumonia", "neumoni"),
    "Pneumothorax": ("pneumothorax", "neumotorax"),
}
_KINDS: Mapping[str, tuple[str, str]] = {
    "nodule": ("nodule", "nodul pulmon"),
    "mass": ("pulmonary mass", "mas pulmon"),
    "acute": ("rib fracture", "fractur costal"),
    "healing": ("callus rib fracture", "call fractur costal"),
    **dict(
        zip(
            DEVICES,
            (
                ("endotracheal tube", "tub endotraqueal"),
                ("central venous catheter", "cateter venos central"),
                ("pacemaker", "marcapas"),
                ("chest drain tube", "tub drenaj torac"),
                ("NSG tube", "sond nasogastr"),
                ("sternotomy", "esternotomi"),
            ),
            strict=True,
        )
    ),
}
_SIDES = {"left": ("loc left", "izquierd"), "right": ("loc right", "derech")}
_FURTHER = dict.fromkeys(
    ("Enlarged Cardiomediastinum", "Pleural Other", "Emphysema", "Fibrosis", "Hernia"), 0.06
)
_PROJECTIONS = {"PA": 0.7, "AP": 0.1, "AP_horizontal": 0.2}
#: Labels that are no finding, and how often a study has them.
_SUBOPTIMAL, _UNCHANGED, _EXCLUDED = 0.02, 0.05, 0.02
_BY_NETWORK = 0.3  # rows; 73 % of the published ones
_STREAM = 79


def name_of(finding: Finding) -> tuple[str, str]:
    """The publisher's name of a finding, and its word in reports."""
    return _KINDS[finding.kind] if finding.kind in _KINDS else NAMES[finding.name]


def _labels(study: Study, rng: np.random.Generator) -> list[str]:
    """The labels of a study; stray spaces as published."""
    names = sorted({name_of(finding)[0] for finding in study.findings})
    names += ["unchanged"] if study.changes and rng.random() < _UNCHANGED else []
    names += ["suboptimal study"] if rng.random() < _SUBOPTIMAL else []
    names = ["exclude"] if rng.random() < _EXCLUDED else names or ["normal"]
    return [f" {name}" if number else name for number, name in enumerate(names)]


def _report(study: Study) -> str:
    """A report as published: lower case, stems of Spanish words, no marks."""
    if not study.findings:
        return "sin hallazg patolog signific"
    words = []
    for finding in study.findings:
        side = _SIDES.get(finding.side, ("", ""))[1]
        words.append(f"{name_of(finding)[1]} {side}".strip())
    return " . ".join(words)


def padchest_patient(settings: HospitalSettings, number: int) -> Patient:
    """Draw a patient, who depends on the seed and the number alone."""
    settings = settings.model_copy(
        update={"further_findings": _FURTHER, "no_pathology_share": 0.35, "device_share": 0.15}
    )
    body, course, clock, camera = (
        np.random.default_rng([settings.seed, number, stream, _STREAM]) for stream in range(4)
    )
    chapters = sample_course(course, settings, int(course.choice([1, 2, 3], p=(0.6, 0.28, 0.12))))
    studies = []
    times = sample_times(clock, settings, len(chapters))
    for place, (time, chapter) in enumerate(zip(times, chapters, strict=True)):
        projection = str(camera.choice(list(_PROJECTIONS), p=list(_PROJECTIONS.values())))
        images = [_image(camera, settings, projection)]
        if projection == "PA" and camera.random() < 0.7:
            images.append(_image(camera, settings, "LATERAL"))
        studies.append(Study(number, place, time, *chapter, tuple(images)))
    return with_body(body, number, number, studies)


def _image(rng: np.random.Generator, settings: HospitalSettings, projection: str) -> Acquisition:
    """An image with this hospital's tone; ``view`` is the column Projection.

    Exposure and blur are drawn for every image, so that none is overexposed or blurred. Those that
    are clipped or turned stay so.
    """
    usual = "AP" if projection == "AP_horizontal" else projection
    image = sample_acquisition(rng, settings, f"{rng.integers(2**60):019d}.png", usual)
    tone: dict[str, Any] = {
        name: round(float(rng.uniform(*limits)), 5) for name, limits in TONE.items()
    }
    if image.spoilt in ("overexposed", "blurred"):
        image = replace(image, spoilt=None)
    return replace(image, **tone, view=projection.replace("LATERAL", "L"), monochrome1=False)


def _write_patient(output: Path, settings: HospitalSettings, number: int) -> list[Row]:
    """Write a patient's images; returns their rows, without the first column."""
    rng = np.random.default_rng([settings.seed, number, 4, _STREAM])
    patient, rows = padchest_patient(settings, number), []
    for place, study in enumerate(patient.studies):
        labels = _labels(study, rng)
        method = "RNN_model" if rng.random() < _BY_NETWORK else "Physician"
        places = [_SIDES[f.side][0] for f in study.findings if f.side in _SIDES]
        for image in study.images:
            pixels = draw(patient, study, image, settings.image_size).image
            deep_grey(pixels).save(output / str(number % 2) / image.image_id)
            height, width = pixels.shape
            values_by_column = {
                "ImageID": image.image_id,
                "ImageDir": number % 2,
                "StudyDate_DICOM": study.time.strftime("%Y%m%d"),
                "StudyID": f"study{number:06d}{place}",
                "PatientID": f"pat{number:06d}",
                "PatientBirth": float(study.time.year - patient.age),
                "PatientSex_DICOM": patient.sex,
                "ViewPosition_DICOM": "LATERAL" if image.view == "L" else "POSTEROANTERIOR",
                "Projection": image.view,
                "MethodProjection": "Manual review of DICOM fields",
                "Pediatric": "No",
                "Modality_DICOM": "CR",
                "PhotometricInterpretation_DICOM": "MONOCHROME2",
                "BitsStored_DICOM": 16,
                "Rows_DICOM": height,
                "Columns_DICOM": width,
                "ReportID": 10 * number + place,
                "Report": _report(study),
                "MethodLabel": method,
                "Labels": str(labels),
                "Localizations": str(places),
            }
            rows.append(tuple(values_by_column.get(name) for name in COLUMNS[1:]))
    return rows


@dataset_writer()
def write_padchest(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images and the table, and damage a few as the published set is damaged."""
    for name in "01":
        (folder / name).mkdir()
    numbers = range(settings.padchest_patients)
    patients = list(each(numbers, threads, "padchest", _write_patient, folder, settings))
    rows = [list(row) for of_patient in patients for row in of_patient]
    image, directory, label = (COLUMNS.index(n) - 1 for n in ("ImageID", "ImageDir", "Labels"))
    for row in rows[-2:]:
        row[label] = None
    missing, cut = (folder / str(row[directory]) / str(row[image]) for row in (rows[0], rows[1]))
    missing.unlink()
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    write_table(folder / TABLE, COLUMNS, [(n, *row) for n, row in enumerate(rows)])
    method = COLUMNS.index("MethodLabel") - 1
    return {
        "images": len(rows),
        "physician_images": sum(row[method] == "Physician" for row in rows),
        "damaged_files": 2,
    }
