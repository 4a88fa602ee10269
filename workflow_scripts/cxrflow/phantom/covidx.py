"""State of the COVIDx copy's images: normal chests, pneumonia, and COVID-19.

COVID-19 is many faint hazes at the wall of both lungs, mostly low: bilateral peripheral ground
glass. No patient of the other copies has this pattern, and no report describes it. The published
set gathers each class from collections of its own, whose looks reveal the class; here looks are
independent of the class, unless ``covidx_shortcut`` asks for the confusion.
"""

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from cxrflow.phantom.acquisition import sample_acquisition
from cxrflow.phantom.course import Chapter, Finding, first_findings, sample_finding
from cxrflow.phantom.patient import Patient, Study, dicom_id, with_body
from cxrflow.phantom.settings import HospitalSettings

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
    hazes: list[Finding] = []
    for zone in zones:
        for side in ("left", "right"):
            for along in (-0.45, 0.45):
                hazes.append(
                    Finding(
                        name="Lung Opacity",
                        side=side,
                        zone=zone,
                        severity=round(severity, 3),
                        kind="",
                        key=100 + len(hazes),
                        across=round(float(rng.uniform(0.62, 0.9)), 3),
                        along=round(along + float(rng.uniform(-0.25, 0.25)), 3),
                        size=round(float(rng.uniform(0.42, 0.6)), 3),
                    )
                )
    return tuple(hazes)


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
    chapter = Chapter(tuple(findings), {}, ())
    study = Study(owner, index, datetime(2020, 4, 1), *chapter, (image,))
    patient = with_body(body, owner, owner, [study])
    person = dicom_id(settings.seed, "covidx patient", owner)[:8]
    return CovidxCase(person, f"{name[:17]}.{suffix}", label, source, tested, patient, study)
