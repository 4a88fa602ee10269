"""The MIMIC-CXR copy: DICOM tree, reports beside the study folders, lists, zip of the reports.

Layout of mimic-cxr 2.0.0: ``files/p1X/p<subject>/s<study>/<dicom_id>.dcm`` and
``files/p1X/p<subject>/s<study>.txt``; view and date stand in the DICOM headers alone.
"""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
from pydicom.dataset import FileDataset

from cxr_hospital import dicom_file
from cxr_hospital.acquisition import Acquisition
from cxr_hospital.drawing import draw, finding_boxes
from cxr_hospital.patient import Patient, Study, hospital, make_patient, of_mimic_cxr
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.truth import TABLES
from cxr_hospital.wording.examination import procedure
from cxr_hospital.writers.folder import (
    Counts,
    dataset_writer,
    each,
    write_table,
    write_truth,
    write_zip,
)

_DX, _CR = "1.2.840.10008.5.1.4.1.1.1.1", "1.2.840.10008.5.1.4.1.1.1"
VIEW_CODES = {
    "AP": "antero-posterior",
    "PA": "postero-anterior",
    "LATERAL": "lateral",
    "LL": "left lateral",
}


def study_folder(study: Study) -> str:
    """``files/p1X/p<subject>/s<study>``, without a slash at its end."""
    return f"files/p{study.subject_id // 1_000_000}/p{study.subject_id}/s{study.study_id}"


def study_date(study: Study) -> str:
    """Shifted date as DICOM writes it, YYYYMMDD."""
    return study.time.strftime("%Y%m%d")


def study_time(study: Study) -> str:
    """Time as DICOM writes it, HHMMSS.fff; equal times of one patient stay equal."""
    digest = hashlib.sha256(f"{study.subject_id}/{study.time}".encode()).digest()
    return study.time.strftime("%H%M%S.") + f"{int.from_bytes(digest[:4]) % 1000:03d}"


def posture(acquisition: Acquisition) -> str:
    """Erect or Recumbent, blank where the header says no view; portable films are either."""
    if not acquisition.view:
        return ""
    lying = acquisition.projection == "AP" and acquisition.seed % 5 < 2
    return "Recumbent" if lying else "Erect"


def _header(patient: Patient, study: Study, acquisition: Acquisition, number: int) -> FileDataset:
    rng = np.random.default_rng([acquisition.seed, 2])
    sop_class = _DX if rng.random() < 0.8 else _CR
    file = dicom_file.new_file(
        sop_class, dicom_file.uid(acquisition.image_id), acquisition.transfer_syntax
    )
    blank = ("AccessionNumber", "Manufacturer", "PatientName", "PatientBirthDate", "PatientSex")
    for name in blank:
        setattr(file, name, "")
    file.ImageType = ["DERIVED" if acquisition.repeat else "ORIGINAL", "PRIMARY", ""]
    file.StudyDate = file.SeriesDate = file.ContentDate = study_date(study)
    file.StudyTime = study_time(study)
    file.Modality = "DX" if sop_class == _DX else "CR"
    file.PresentationIntentType = "FOR PRESENTATION"
    step = procedure(study)
    file.ProcedureCodeSequence = [dicom_file.code(step, f"C{len(step)}")]
    file.PatientID = str(patient.subject_id)
    file.BodyPartExamined = "CHEST"
    file.KVP = str(int(rng.integers(80, 126)))
    file.ExposureTime = int(rng.integers(2, 40))
    file.Exposure = int(rng.integers(1, 9))
    spacing = f"{rng.uniform(0.125, 0.2):.3f}"
    file.ImagerPixelSpacing = [spacing, spacing]
    file.ViewPosition = acquisition.view
    file.StudyInstanceUID = dicom_file.uid(study.study_id)
    file.SeriesInstanceUID = dicom_file.uid(study.study_id, "series", number)
    file.StudyID = str(study.study_id)
    file.SeriesNumber, file.InstanceNumber = number + 1, 1
    file.PatientOrientation = ["L", "F"] if acquisition.frontal else ["A", "F"]
    if acquisition.view:
        meaning = VIEW_CODES[acquisition.view]
        file.ViewCodeSequence = [dicom_file.code(meaning, f"V{len(meaning)}")]
        item = dicom_file.code(posture(acquisition), "F-10440")
        file.PatientOrientationCodeSequence = [item]
    file.PerformedProcedureStepDescription = step
    file.PresentationLUTShape = "INVERSE" if acquisition.monochrome1 else "IDENTITY"
    return file


def write_image_truth(folder: Path, settings: HospitalSettings) -> None:
    """Write which images are usable, the defects of the others, and the pose of each chest."""
    images = [i for p in hospital(settings) for study in p.studies for i in study.images]
    names = ("image_id", "projection", "inspiration", "shift_x", "shift_y", "scale", "rotation")
    rows = [{name: getattr(image, name) for name in names} for image in images]
    spoilt = pd.Series([image.spoilt for image in images], dtype="str")
    write_truth(folder, "images", pd.DataFrame(rows).assign(usable=spoilt.isna(), kind=spoilt))


def finding_truth(settings: HospitalSettings, index: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A patient's sentences that state findings, and their boxes in each image, in pixels."""
    patient = make_patient(settings, index)
    sentences, boxes = [], []
    for study in patient.studies:
        report = report_of(settings, patient, study)
        for name, section, number in report.diagnostic:
            sentence = getattr(report, section)[number]
            sentences.append((study.study_id, name, section, number, sentence))
        names = {finding.key: finding.name for finding in study.findings}
        for image in study.images:
            of_image = finding_boxes(patient, study, image, settings.image_size)
            boxes += [
                (study.study_id, image.image_id, names[key], *box)
                for key, group in of_image.items()
                for box in group
            ]
    return (
        pd.DataFrame(sentences, columns=list(TABLES["sentences"].columns)),
        pd.DataFrame(boxes, columns=list(TABLES["boxes"].columns)),
    )


def state_of(study: Study) -> str:
    """All that reports say of findings: place, degree and change; which have resolved."""
    present = sorted(
        (f.name, f.side, f.zone, f.grade, f.kind, study.changes.get(f.key, ""))
        for f in study.findings
    )
    resolved = sorted((f.name, f.side, f.zone) for f in study.resolved)
    parts = [" ".join(filter(None, words)) for words in present]
    return "; ".join([*parts, *(f"resolved {' '.join(filter(None, w))}" for w in resolved)])


def write_image(
    path: Path, patient: Patient, study: Study, acquisition: Acquisition, number: int, size: int
) -> None:
    """Draw one acquisition and write it as DICOM; values fill part of the detector's range."""
    image = draw(patient, study, acquisition, size).image
    rng = np.random.default_rng([acquisition.seed, 1])
    top = 2**acquisition.bits - 1
    low, high = top * rng.uniform(0.0, 0.08), top * rng.uniform(0.7, 1.0)
    values = np.rint(low + image * np.float32(high - low)).astype(np.uint16)
    values = (top - values).astype(np.uint16) if acquisition.monochrome1 else values
    file = _header(patient, study, acquisition, number)
    dicom_file.set_pixels(file, values, acquisition.bits, acquisition.monochrome1)
    least, most = int(values.min()), int(values.max())
    file.WindowCenter, file.WindowWidth = str((least + most + 1) // 2), str(max(most - least, 1))
    dicom_file.save(file, path)


def _write_patient(
    output: Path, settings: HospitalSettings, index: int
) -> list[tuple[int, int, str, str]]:
    """All files of one patient; (subject, study, image, path) of its images."""
    patient = make_patient(settings, index)
    rows = []
    for study in patient.studies:
        folder = output / study_folder(study)
        folder.mkdir(parents=True, exist_ok=True)
        report = report_of(settings, patient, study)
        Path(f"{folder}.txt").write_text(report.text, encoding="utf-8", newline="\n")
        for number, acquisition in enumerate(study.images):
            path = f"{study_folder(study)}/{acquisition.image_id}.dcm"
            write_image(output / path, patient, study, acquisition, number, settings.image_size)
            rows.append((study.subject_id, study.study_id, acquisition.image_id, path))
    return rows


@dataset_writer(truth=("states",))
def write_mimic_cxr(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the DICOM edition."""
    indices = of_mimic_cxr(settings)
    patients = each(indices, threads, "mimic_cxr", _write_patient, folder, settings)
    images = sorted(row for rows in patients for row in rows)
    columns = ["subject_id", "study_id", "dicom_id", "path"]
    write_table(folder / "cxr-record-list.csv.gz", columns, images)
    studies = sorted({(s, t, f"{path.rpartition('/')[0]}.txt") for s, t, _, path in images})
    columns.remove("dicom_id")
    write_table(folder / "cxr-study-list.csv.gz", columns, studies)
    reports = ((name, (folder / name).read_bytes()) for *_, name in studies)
    write_zip(folder / "mimic-cxr-reports.zip", 2019, reports)
    if settings.followed is not None:
        write_image_truth(folder, settings)
    states = [(s.study_id, state_of(s)) for p in hospital(settings) for s in p.studies]
    write_truth(folder, "states", pd.DataFrame(states, columns=list(TABLES["states"].columns)))
    if settings.finding_truth:
        tables = each(indices, threads, "truth of findings", finding_truth, settings)
        for name, rows in zip(("sentences", "boxes"), zip(*tables, strict=True), strict=True):
            write_truth(folder, name, pd.concat(rows))
    return {"patients": len(indices), "studies": len(studies), "images": len(images)}
