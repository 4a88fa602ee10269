"""The ReXGradient copy: studies of many sites with sections, dates and lists of images.

As ReXGradient-160K ships it, unpacked: ``metadata/<part>_metadata.json`` and
``<part>_metadata_view_position.json`` name studies as ``p<patient>_a<accession>_s<uid>``, the CSV
has the same without images; images are PNG of 16 bits that use a quarter of the range. A third of
the views are said in other words or not at all, and two studies of a patient may have one date.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cxr_hospital.acquisition import Acquisition, sample_acquisitions
from cxr_hospital.canvas import deep_grey
from cxr_hospital.course import sample_course
from cxr_hospital.drawing import draw
from cxr_hospital.patient import Patient, Study, sample_times, with_body
from cxr_hospital.report import write_report
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_table

PARTS = {"train": 0.875, "valid": 0.0625, "test": 0.0625}  # of the studies; as published
TEXTS = ("Indication", "Comparison", "Findings", "Impression")
FIELDS = (
    *("PatientID", "AccessionNumber", "StudyInstanceUid", "PatientSex", "PatientAge", "StudyDate"),
    *("StudyDescription", *TEXTS),
)
#: What is written for a view, and how often instead of the usual word.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "PA": ("PA", "PA", "PA", "POSTERO_ANTERIOR", "UNKNOWN", "None"),
    "AP": ("AP", "AP", "AP", "ANTERO_POSTERIOR", "SUPINE", "UNKNOWN"),
    "LATERAL": ("LATERAL", "LATERAL", "LAT", "LL", "UNKNOWN", "N/A"),
}
_LENGTHS = (0.7, 0.2, 0.1)  # of one to three studies
_RANGE = 2**14  # of the values; a plain conversion to 8 bits would lose all but 64 of them
_STREAM = 131


def rexgradient_patient(settings: HospitalSettings, number: int) -> Patient:
    """Draw a patient, who depends on the seed and the number alone."""
    body, course, clock, camera = (
        np.random.default_rng([settings.seed, number, stream, _STREAM]) for stream in range(4)
    )
    chapters = sample_course(course, settings, int(course.choice([1, 2, 3], p=_LENGTHS)))
    times = sample_times(clock, settings, len(chapters))
    studies = []
    for place, (time, chapter) in enumerate(zip(times, chapters, strict=True)):
        names = [_uid(settings, number, place, image) for image in range(3)]
        images = sample_acquisitions(camera, settings, names)
        plain = tuple(replace(image, monochrome1=False) for image in images)
        studies.append(Study(number, place, time, *chapter, plain))
    return with_body(body, number, number, studies)


def _uid(settings: HospitalSettings, *key: int) -> str:
    """A UID of a study, or of what belongs to one."""
    root = "1.2.826.0.1.3680043.8"
    return ".".join([root, str(settings.seed + 1), *(str(number + 1) for number in key)])


def image_path(settings: HospitalSettings, number: int, study: Study, image: Acquisition) -> str:
    """The path as the lists say it, from their own folder."""
    uid = _uid(settings, number, study.study_id)
    return (
        f"../deid_png/{patient_id(number)}/{_accession(number, study)}/studies/{uid}/series/"
        f"{image.image_id}.1/instances/{image.image_id}.png"
    )


def patient_id(number: int) -> str:
    return f"GRDN{number:012X}"


def _accession(number: int, study: Study) -> str:
    return f"GRDNACC{number:08X}{study.study_id}"


def _entry(
    settings: HospitalSettings, patient: Patient, study: Study, paths: list[str]
) -> dict[str, Any]:
    """A study as the lists have it, with its images."""
    number = patient.index
    rng = np.random.default_rng([settings.seed, number, 4, _STREAM, study.study_id])
    report = write_report(patient, study, rng, settings)
    sentences = report.findings or report.last_paragraph
    words = [SPELLINGS.get(image.projection, (image.projection,)) for image in study.images]
    return {
        "PatientID": patient_id(number),
        "AccessionNumber": _accession(number, study),
        "StudyInstanceUid": _uid(settings, number, study.study_id),
        "PatientSex": patient.sex,
        "PatientAge": f"{patient.age:03d}Y",
        "StudyDate": study.time.strftime("%Y%m%d"),
        "StudyDescription": "XR CHEST",
        "Indication": "Cough.",
        "Comparison": "None." if not study.study_id else "Prior radiograph.",
        "Findings": " ".join(sentences),
        "Impression": " ".join(report.impression),
        "ImagePath": paths,
        "ImageViewPosition": [str(rng.choice(of_view)) for of_view in words],
        "ImageShape": [[settings.image_size, settings.image_size] for _ in paths],
        "ImageModality": ["DX" for _ in paths],
        "ImageBodyPart": ["CHEST" for _ in paths],
    }


def _write_patient(output: Path, settings: HospitalSettings, number: int) -> list[dict[str, Any]]:
    """Write a patient's images; returns the studies."""
    patient, entries = rexgradient_patient(settings, number), []
    for study in patient.studies:
        paths = [image_path(settings, number, study, image) for image in study.images]
        for path, image in zip(paths, study.images, strict=True):
            pixels = draw(patient, study, image, settings.image_size).image
            place = output / "metadata" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            deep_grey(pixels, _RANGE).save(place)
        entries.append(_entry(settings, patient, study, paths))
    return entries


def part_of(number: int, patients: int) -> str:
    """The part of a patient: of 16 the last two are valid and test."""
    share, end = (number + 0.5) / patients, 0.0
    for part, width in PARTS.items():
        end += width
        if share < end:
            return part
    return "test"


def patient_count(settings: HospitalSettings) -> int:
    """A fourth as many as the chest copy has, at least 16."""
    return max(settings.patients // 4, 16)


@dataset_writer()
def write_rexgradient(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images and lists."""
    (folder / "metadata").mkdir()
    patients = patient_count(settings)
    entries: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    written = each(range(patients), threads, "rexgradient", _write_patient, folder, settings)
    for number, studies in enumerate(written):
        for entry in studies:
            key = "p{PatientID}_a{AccessionNumber}_s{StudyInstanceUid}".format_map(entry)
            entries[part_of(number, patients)][key] = entry
    for part, of_part in entries.items():
        name = folder / "metadata" / f"{part}_metadata"
        for suffix in (".json", "_view_position.json"):
            Path(f"{name}{suffix}").write_text(json.dumps(of_part, indent=1), encoding="utf-8")
        rows = [(key, *(entry[field] for field in FIELDS)) for key, entry in of_part.items()]
        write_table(Path(f"{name}.csv"), ("id", *FIELDS), rows)
    images = sum(len(entry["ImagePath"]) for of in entries.values() for entry in of.values())
    return {"patients": patients, "studies": sum(map(len, entries.values())), "images": images}
