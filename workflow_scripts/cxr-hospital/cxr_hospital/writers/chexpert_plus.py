"""The CheXpert Plus copy: the reports of the CheXpert copy's patients, and their images as PNG.

Patients, studies and images are those of the CheXpert copy in train and valid, so that whoever
takes one for another hospital learns from the other's test patients. What the published table is
known for is here: names end in ``.jpg``, each image of a study has its own version of the text,
dates of many spellings or none stand in the narratives, and ``patient_report_date_order`` has
nothing to do with them for a third of the patients; sections are blank, a literal ``\\n``, or in
each other's column; one image is missing.
"""

from datetime import datetime
from pathlib import Path

import numpy as np

from cxr_hospital.canvas import grey
from cxr_hospital.drawing import draw
from cxr_hospital.report import PatientReport
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.chexpert import (
    Record,
    labels_of,
    make_chexpert_patient,
    records,
    report_of,
)
from cxr_hospital.writers.folder import (
    Counts,
    Row,
    dataset_writer,
    each,
    write_json_lines,
    write_table,
)

TABLE = "df_chexpert_plus_240401.csv"
COLUMNS = (
    *("path_to_image", "path_to_dcm", "frontal_lateral", "ap_pa", "deid_patient_id"),
    *("patient_report_date_order", "report", "section_narrative", "section_clinical_history"),
    *("section_history", "section_comparison", "section_technique"),
    *("section_procedure_comments", "section_findings", "section_impression"),
    *("section_end_of_impression", "section_summary", "section_accession_number"),
    *("age", "sex", "race", "ethnicity", "interpreter_needed", "insurance_type", "recent_bmi"),
    *("deceased", "split"),
)
#: How a date is written, and how often a narrative has none.
SPELLINGS = ("{0.month}-{0.day}-{0.year}", "{0.month}/{0.day}/{0.year}", "{0:%m/%d/%y}",
             "{0.month}/{0.day}/{0.year} {0:%H%M} hours")  # fmt: skip
_UNDATED, _SHUFFLED = 0.15, 0.33
_WITHOUT_FINDINGS, _MISPLACED, _LITERAL = 0.5, 0.1, 0.1
_STREAM = 137
Labelled = tuple[list[Row], list[dict[str, object]]]


def _narrative(time: datetime, first: datetime, rng: np.random.Generator) -> str:
    """The head of a report; a patient's first study is of 2001."""
    time = time.replace(year=2001 + time.year - first.year, day=min(time.day, 28))
    words = str(rng.choice(SPELLINGS)).format(time) if rng.random() >= _UNDATED else ""
    return f"RADIOGRAPHIC EXAMINATION OF THE CHEST: {words}".strip()


def _texts(report: PatientReport, narrative: str, doctor: str, rng: np.random.Generator) -> Row:
    """The whole text of an image, and what its columns of sections hold."""
    findings = " ".join(report.findings or report.last_paragraph)
    impression = "\n".join(f"{n}. {s}" for n, s in enumerate(report.impression, 1))
    chosen = rng.random() < _WITHOUT_FINDINGS and impression
    parts = [f"NARRATIVE:\n{narrative}\n", "CLINICAL HISTORY: Shortness of breath.\n"]
    parts += [] if chosen or not findings else [f"FINDINGS:\n{findings}\n"]
    parts += [f"IMPRESSION:\n{impression}\n"] if impression else []
    parts += [f"END OF IMPRESSION:\nRead by Dr. {doctor}.\n", "SUMMARY: 2-ABNORMAL, SEE REPORT\n"]
    sections = [None if chosen or not findings else findings, impression or None]
    if sections[0] is None and rng.random() < _LITERAL:
        sections[0] = "\\n"
    if sections[0] is None and impression and rng.random() < _MISPLACED:
        sections = [impression, None]
    return ("\n".join(parts), *sections)


def _write_patient(output: Path, settings: HospitalSettings, record: Record) -> Labelled:
    """Write the images of a patient; returns its rows, and its labels by image."""
    patient = make_chexpert_patient(settings, record)
    rng = np.random.default_rng([settings.seed, record.number, _STREAM])
    orders = np.arange(len(patient.studies)) + 1
    if rng.random() < _SHUFFLED:
        orders = rng.permutation(len(orders)) + 1
    rows: list[Row] = []
    labels: list[dict[str, object]] = []
    for number, study in enumerate(patient.studies):
        report = report_of(settings, record, patient, number)
        narrative = _narrative(study.time, patient.studies[0].time, rng)
        labels_of_study = labels_of(settings, record, patient, number)
        for image in study.images:
            doctor = str(rng.choice(["Abel", "Boyd", "Cole", "Drew"]))
            text, findings, impression = _texts(report, narrative, doctor, rng)
            place = f"{record.split}/{image.image_id}"
            path = output / "PNG" / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            grey(draw(patient, study, image, settings.image_size).image).save(path)
            values = {
                "path_to_image": f"{place}.jpg",
                "path_to_dcm": f"{place}.dcm",
                "frontal_lateral": "Frontal" if image.frontal else "Lateral",
                "ap_pa": image.projection if image.frontal else None,
                "deid_patient_id": f"patient{record.number:05d}",
                "patient_report_date_order": int(orders[number]),
                "report": text,
                "section_narrative": narrative,
                "section_findings": findings,
                "section_impression": impression,
                "age": float(patient.age),
                "sex": {"F": "Female", "M": "Male"}[patient.sex],
                "split": record.split,
            }
            rows.append(tuple(values.get(name) for name in COLUMNS))
            labels.append({"path_to_image": f"{place}.jpg", **labels_of_study})
    return rows, labels


@dataset_writer()
def write_chexpert_plus(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write images, table and labels of CheXpert's train and valid patients."""
    people = [record for record in records(settings) if record.split != "test"]
    written = list(each(people, threads, "chexpert_plus", _write_patient, folder, settings))
    rows = [row for of_patient, _ in written for row in of_patient]
    labels = [line for _, of_patient in written for line in of_patient]
    (folder / "PNG" / str(rows[0][0])).with_suffix(".png").unlink()
    write_table(folder / TABLE, COLUMNS, rows)
    section = COLUMNS.index("section_findings")
    for name, column in (("impression", section + 1), ("findings", section)):
        lines = [line for line, row in zip(labels, rows, strict=True) if row[column]]
        write_json_lines(folder / f"{name}_fixed.json", lines)
    return {"patients": len(people), "images": len(rows), "missing_files": 1}
