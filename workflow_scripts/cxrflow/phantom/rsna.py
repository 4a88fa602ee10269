"""The other hospital: state of the RSNA copy's images, drawn with the same anatomy.

Three classes as in ``stage_2_detailed_class_info.csv``. 'Lung Opacity' holds pneumonia (mostly),
consolidation or lung opacity, whose boxes are the targets; 'No Lung Opacity / Not Normal' holds
other findings; the look (gamma, noise, sharpness, collimation, 8 bits) is not that of MIMIC-CXR.
"""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from cxrflow.phantom.acquisition import Acquisition, sample_acquisition
from cxrflow.phantom.course import Chapter, Finding, first_findings, sample_finding
from cxrflow.phantom.patient import Patient, Study, dicom_id, with_body
from cxrflow.phantom.settings import HospitalSettings

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
    chapter = Chapter(tuple(findings), {}, ())
    study = Study(index, index, datetime(1901, 1, 1), *chapter, (acquisition,))
    patient = with_body(body, index, index, [study])
    patient_id = str(uuid.UUID(bytes=body.bytes(16), version=4))
    boxed = tuple(f.key for f in findings if f.name in _OPACITIES)
    return RsnaCase(patient_id, label, patient, study, acquisition, boxed)
