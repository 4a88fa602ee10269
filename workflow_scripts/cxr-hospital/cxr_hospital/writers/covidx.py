"""The COVIDx v4 copy: normal chests, pneumonia, and COVID-19.

COVID-19 is many faint hazes at the wall of both lungs, mostly low: bilateral peripheral ground
glass. No patient of the other copies has this pattern, and no report describes it. The published
set gathers each class from collections of its own, whose looks reveal the class; here looks are
independent of the class, unless ``covidx_shortcut`` asks for the confusion. There are two lists
without header, and images in four spellings of two formats.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from pathlib import Path

import numpy as np

from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.anatomy import SIDES
from cxr_hospital.canvas import grey
from cxr_hospital.course import Finding, first_findings, sample_finding
from cxr_hospital.drawing import draw
from cxr_hospital.patient import Patient, Study, dicom_id, with_body
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each

CLASSES = ("normal", "pneumonia", "COVID-19")
#: Shares in the training split. Published are 57, 39 and 3 %; of the last a small copy had too few.
_SHARES = (0.45, 0.35, 0.20)
_PNEUMONIA = {"Pneumonia": 0.7, "Consolidation": 0.15, "Lung Opacity": 0.15}
#: Collections by class, about as published.
_SOURCES = {
    "normal": {"rsna": 1.0},
    "pneumonia": {"rsna": 0.99, "cohen": 0.01},
    "COVID-19": {"cohen": 0.83, "sirm": 0.07, "actmed": 0.05, "fig1": 0.05},
}
_SUFFIXES = {"png": 0.6, "jpg": 0.25, "jpeg": 0.1, "JPG": 0.05}
#: One image in ``_SECOND`` is the second of its patient, one patient in ``_TEST`` is for testing.
_SECOND, _TEST = 8, 4
_WITHOUT_SOURCE = 2 / 3  # of the test list's 300 lines 197 lack the collection
_STREAM = 80


@dataclass(frozen=True)
class CovidxCase:
    """One image: its line in the list, its split, and the state it is drawn from."""

    patient_id: str
    file: str
    label: str
    source: str
    tested: bool
    patient: Patient
    study: Study


def ground_glass(rng: np.random.Generator) -> tuple[Finding, ...]:
    """Faint hazes along the wall of both lungs, below more than above."""
    severity, upper = float(rng.uniform(0.4, 0.95)), bool(rng.random() < 0.35)
    zones = ("lower", "middle", "upper") if upper else ("lower", "middle")
    return tuple(
        Finding(
            name="Lung Opacity",
            side=side,
            zone=zone,
            severity=round(severity, 3),
            kind="",
            key=key,
            across=round(float(rng.uniform(0.62, 0.9)), 3),
            along=round(along + float(rng.uniform(-0.25, 0.25)), 3),
            size=round(float(rng.uniform(0.42, 0.6)), 3),
        )
        for key, (zone, side, along) in enumerate(product(zones, SIDES, (-0.45, 0.45)), start=100)
    )


def covidx_case(settings: HospitalSettings, index: int) -> CovidxCase:
    """Draw image ``index`` (from 0), independent of all others but the patient's own."""
    second = index % _SECOND == _SECOND - 1
    owner = index - 1 if second else index
    tested = owner % _TEST == 0
    body, course, origin = (
        np.random.default_rng([settings.seed, owner, stream, _STREAM]) for stream in (0, 1, 3)
    )
    camera = np.random.default_rng([settings.seed, index, 2, _STREAM])
    if tested:  # the published test split is balanced
        label = CLASSES[owner // _TEST % len(CLASSES)]
    else:
        label = str(course.choice(CLASSES, p=_SHARES))
    findings: list[Finding] = []
    if label == "pneumonia":
        findings = first_findings(course, 1 + int(course.random() < 0.35), _PNEUMONIA)
    elif label == "COVID-19":
        findings = list(ground_glass(course))
    if course.random() < settings.device_share:
        findings.append(sample_finding(course, "Support Devices", 9))
    shares = _SOURCES[label]
    source = str(origin.choice(list(shares), p=list(shares.values())))
    foreign = source != "rsna" if settings.covidx_shortcut else camera.random() < 0.5
    suffix = str(camera.choice(list(_SUFFIXES), p=list(_SUFFIXES.values())))
    projection = "AP" if camera.random() < 0.5 else "PA"
    if settings.covidx_shortcut:
        suffix, projection = ("jpg", "AP") if foreign else ("png", "PA")
    name = dicom_id(settings.seed, "covidx", index)
    look = "mimic_cxr" if foreign else "rsna"
    image = sample_acquisition(camera, settings, name, projection, look=look)
    # Images collected from articles were often cropped and lightened in print.
    image = replace(image, contrast=round(0.8 * image.contrast, 4)) if foreign else image
    study = Study(owner, index, datetime(2020, 4, 1), tuple(findings), {}, (), (image,))
    patient = with_body(body, owner, owner, [study])
    person = dicom_id(settings.seed, "covidx patient", owner)[:8]
    return CovidxCase(person, f"{name[:17]}.{suffix}", label, source, tested, patient, study)


def _write_image(output: Path, settings: HospitalSettings, index: int) -> tuple[str, str, str]:
    """Write one image; returns its split, its class and its line."""
    case = covidx_case(settings, index)
    size = max(48, settings.image_size // 2)
    image = draw(case.patient, case.study, case.study.images[0], size).image
    split = "test" if case.tested else "train"
    path = output / "data" / split / case.file
    grey(image).save(path, quality=92)  # which PNG ignores
    line = [case.patient_id, case.file, case.label, case.source]
    rng = np.random.default_rng([case.study.images[0].seed, 2])
    if case.tested and rng.random() < _WITHOUT_SOURCE:
        line.pop()
    return split, case.label, " ".join(line)


@dataset_writer()
def write_covidx(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write an image for three patients of the chest copy."""
    for name in ("data/train", "data/test", "labels"):
        (folder / name).mkdir(parents=True)
    number = min(max(settings.patients // 3, 48), 13_898)  # lines of the published training list
    written = list(each(range(number), threads, "covidx", _write_image, folder, settings))
    for split in ("train", "test"):
        lines = sorted(line for split_of_line, _, line in written if split_of_line == split)
        (folder / "labels" / f"{split}_COVIDx4.txt").write_text("\n".join(lines) + "\n")
    return {
        "train_images": sum(split == "train" for split, _, _ in written),
        "test_images": sum(split == "test" for split, _, _ in written),
        **{name: sum(label == name for _, label, _ in written) for name in CLASSES},
    }
