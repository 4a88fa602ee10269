"""The MIMIC-III copy: invented clinical notes; removed words stand in ``[** **]`` brackets.

``NOTEEVENTS.csv.gz`` is that of version 1.4, with text quoted over several lines.
"""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from cxr_hospital.grammar import expand, pick, tidy
from cxr_hospital.literature import condition, drug, procedure
from cxr_hospital.patient import make_patient
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording.biomedicine import GENERA, SPECIES
from cxr_hospital.wording.examination import COMPLAINTS
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_gzip

_STREAM = 81
#: Category as spelt in the table (some end with a space), description, share, charted at a time.
CATEGORIES = (
    ("Discharge summary", "Report", 0.22, False),
    ("Nursing/other", "Report", 0.22, True),
    ("Radiology", "CHEST (PORTABLE AP)", 0.16, True),
    ("Nursing", "Nursing Progress Note", 0.10, True),
    ("Physician ", "Physician Resident Progress Note", 0.10, True),
    ("ECG", "Report", 0.07, False),
    ("Echo", "Report", 0.05, False),
    ("Respiratory ", "Respiratory Care Shift Note", 0.03, True),
    ("Nutrition", "Clinical Nutrition Note", 0.02, True),
    ("Social Work", "Social Work Progress Note", 0.01, True),
    ("Rehab Services", "Physical Therapy Evaluation Note", 0.01, True),
    ("Case Management ", "Case Management Discharge Plan", 0.005, True),
    ("General", "Generic Note", 0.003, True),
    ("Pharmacy", "Pharmacy Note", 0.002, True),
)
_SOCIAL = (
    "{Lives|Living} {alone|with $kin|in a nursing home}. {Denies|Former|Current} tobacco use. "
    "{No|Occasional|Social} alcohol.",
    "{Retired|Works as a} {teacher|carpenter|nurse|driver|librarian}. {Quit smoking|Smokes}.",
)
_HISTORY = (
    "Mr./Ms. [**Known lastname $id**] is a $age year old $person with a history of $disease and "
    "$disease_b who presented with $complaint.",
    "{The patient|Pt} {reports|describes} {two|three|several} days of $complaint, {without|with} "
    '{nausea|vomiting|diarrhea|rash|headache}, and said $kin called it "a bad spell".',
    "In the ED, initial vitals were T $temp HR $pulse BP $pressure RR $rate O2 sat $sat% on "
    "{room air|2L NC}.",
    "{He|She} was given $drug $dose mg {IV|PO} and {admitted to the floor|sent to the MICU}.",
    "{Denied|No} {fevers, chills|chest pain|dysuria|melena|weight loss}.",
)
_COURSE = (
    "# $complaint: {Likely|Felt to be|Thought} secondary to $disease. Treated with $drug with good "
    "effect.",
    "# $disease: {Continued|Held|Restarted} home $drug $dose mg {daily|[**Hospital1 **]|tid|prn}.",
    "# ID: Blood cultures grew $organism, {sensitive|resistant} to $drug_b.",
    "# $disease_b: Underwent $procedure on [**$date**] {without complication|with minimal blood "
    "loss}. ",
    "# FEN: {NPO|Regular diet|Cardiac diet|Tube feeds}, {repleted lytes prn|IVF at 75 cc/hr}.",
    "# PPX: {SC heparin|pneumoboots|PPI}. # Code: {Full|DNR/DNI}. # Dispo: {home|rehab|floor}.",
)
_NURSING = (
    "Neuro: {alert and oriented x3|sedated on $drug|lethargic but arousable}, {MAE|follows "
    "commands|PERRL}.",
    "CV: HR $pulse {NSR|afib|sinus tach} {no ectopy|with occ PVCs}. BP $pressure. {K repleted|+PP|"
    "Extremities warm}.",
    "Resp: {LS clear|LS coarse|crackles at bases}. {Suctioned for thick white sputum|Weaned to 2L "
    "NC}. O2 sat $sat%.",
    "GI: {abd soft, NT/ND, +BS|TF at goal 60cc/hr|NPO}. {No BM|BM x1, guaiac neg}.",
    "GU: foley {patent|draining} {clear yellow urine|amber urine} $uo cc/hr.",
    "ID: {afebrile|Tmax $temp}, {cont on|started} $drug. WBC $wbc.",
    "Social: $kin in to visit, {updated by team|asking appropriate questions}.",
    "A/P: {cont current plan|monitor resp status|wean vent as tol|f/u cx data}.",
)
_ECG = (
    "{Sinus rhythm|Sinus tachycardia|Atrial fibrillation|Sinus bradycardia}. {Left axis deviation|"
    "Normal axis|Right bundle-branch block|Left ventricular hypertrophy}. {Non-specific ST-T wave "
    "changes|Prior inferior myocardial infarction}. Compared to the tracing of [**$date**] "
    "{no significant change|the rate is faster}.",
)
_ECHO = (
    "The left atrium is {normal in size|mildly dilated|elongated}. {There is mild symmetric left "
    "ventricular hypertrophy|Left ventricular wall thicknesses are normal}. Overall left "
    "ventricular systolic function is {normal (LVEF>55%)|moderately depressed (LVEF= 35 %)}. "
    "{Mild|Moderate|Trivial} {mitral|tricuspid} regurgitation is seen. The estimated pulmonary "
    "artery systolic pressure is {normal|mildly elevated}.",
)
_STRENGTHS = ("5 mg", "20 mg", "100 mg")
_TIMES = ("DAILY (Daily)", "BID (2 times a day)", "Q6H (every 6 hours) as needed")
_OTHER = (
    "{Pt|Patient} seen and {evaluated|examined}. {PMH|History} significant for $disease. ",
    "{Plan|Recommendations}: {continue|consider} $drug $dose mg, {follow|monitor} {lytes|I/Os|"
    "weights|O2 sats}.",
    "{Met with|Spoke to} $kin re: {discharge planning|goals of care|coping}. Will follow.",
    "Mode: {CPAP/PSV|CMV/ASSIST|Trach mask}. {Secretions: thick yellow|Breath sounds: coarse}.",
)


def _slots(rng: np.random.Generator, date: datetime) -> dict[str, str]:
    return {
        "id": str(int(rng.integers(100, 99999))),
        "age": str(int(rng.integers(19, 90))),
        "person": pick(("man", "woman", "male", "female"), rng),
        "kin": pick(("wife", "husband", "daughter", "son", "sister", "family"), rng),
        "disease": condition(rng),
        "disease_b": condition(rng),
        "drug": drug(rng),
        "drug_b": drug(rng),
        "procedure": procedure(rng),
        "organism": f"{pick(GENERA, rng)} {pick(SPECIES, rng)}",
        "complaint": pick(COMPLAINTS, rng),
        "dose": pick(("2.5", "5", "10", "20", "40", "81", "100", "500"), rng),
        "temp": f"{rng.uniform(96.5, 102.5):.1f}",
        "pulse": str(int(rng.integers(52, 130))),
        "pressure": f"{int(rng.integers(88, 180))}/{int(rng.integers(45, 100))}",
        "rate": str(int(rng.integers(12, 30))),
        "sat": str(int(rng.integers(88, 101))),
        "uo": str(int(rng.integers(20, 150))),
        "wbc": f"{rng.uniform(3, 22):.1f}",
        "date": f"{date.year}-{date.month}-{date.day}",
    }


def _lines(
    templates: tuple[str, ...], rng: np.random.Generator, date: datetime, share: float
) -> list[str]:
    """Some of the templates in their order, at least one, each about something of its own."""
    chosen = [template for template in templates if rng.random() < share] or [templates[0]]
    return [tidy(expand(template, rng, _slots(rng, date))) for template in chosen]


def _discharge(rng: np.random.Generator, date: datetime) -> str:
    admitted = date - timedelta(days=int(rng.integers(1, 20)))
    slots = _slots(rng, date)
    medications = [
        f"{number}. {drug(rng)} {pick(_STRENGTHS, rng)} Tablet Sig: One (1) Tablet PO "
        f"{pick(_TIMES, rng)}."
        for number in range(1, int(rng.integers(3, 8)))
    ]
    admission, discharge = (f"[**{day:%Y-%-m-%-d}**]" for day in (admitted, date))
    paragraphs = [
        f"Admission Date:  {admission}              Discharge Date:   {discharge}",
        f"Service: {pick(('MEDICINE', 'SURGERY', 'CARDIOTHORACIC', 'NEUROLOGY'), rng)}",
        f"Allergies:\n{slots['drug'].capitalize()} / {slots['drug_b'].capitalize()}",
        f"Attending:[**First Name3 (LF) {slots['id']}**]\nChief Complaint:\n{slots['complaint']}",
        _section("History of Present Illness", _lines(_HISTORY, rng, date, 0.8)),
        _section(
            "Past Medical History", [f"- {condition(rng)}" for _ in range(rng.integers(2, 6))]
        ),
        _section("Social History", _lines(_SOCIAL, rng, date, 0.6)),
        f"Pertinent Results:\n{admission} 06:15AM BLOOD WBC-{slots['wbc']} Hgb-11.2* Plt Ct-215",
        _section("Brief Hospital Course", _lines(_COURSE, rng, date, 0.75)),
        _section("Discharge Medications", medications),
        f"Discharge Diagnosis:\n{condition(rng)}",
        "Discharge Condition:\nStable.",
    ]
    return "\n\n".join(paragraphs)


def _section(heading: str, lines: list[str]) -> str:
    return "\n".join([f"{heading}:", *lines])


def _radiology(settings: HospitalSettings, number: int, rng: np.random.Generator, date: str) -> str:
    """A chest report about a patient who is not in the MIMIC-CXR copy."""
    patient = make_patient(settings, settings.patients + settings.splitter_reports + number)
    report = report_of(settings, patient, patient.studies[0])
    findings = report.findings or report.last_paragraph
    summary = [" IMPRESSION:  " + "  ".join(report.impression)] if report.impression else []
    return "\n".join(
        [
            f"[**{date}**] 4:12 AM",
            f" CHEST (PORTABLE AP)                               Clip # [**Clip Number (Radiology) "
            f"{int(rng.integers(1000, 99999))}**]",
            f" Reason: {pick(COMPLAINTS, rng)}",
            " " + "_" * 78,
            "                                 FINAL REPORT",
            f" HISTORY:  {pick(COMPLAINTS, rng)}.",
            "",
            *([" FINDINGS: ", *(f" {text}" for text in findings), ""] if findings else []),
            *summary,
        ]
    )


def _text(
    settings: HospitalSettings, number: int, category: str, rng: np.random.Generator, date: datetime
) -> str:
    if category == "Discharge summary":
        return _discharge(rng, date)
    if category == "Radiology":
        return _radiology(settings, number, rng, f"{date:%Y-%-m-%-d}")
    if category in ("ECG", "Echo"):
        return _lines(_ECG if category == "ECG" else _ECHO, rng, date, 1.0)[0]
    if category.startswith("Nursing"):
        return "\n".join(_lines(_NURSING, rng, date, 0.7))
    history = _lines(_HISTORY, rng, date, 0.5) if category == "Physician " else []
    return "\n".join([*history, *_lines(_OTHER, rng, date, 0.7)])


def note(settings: HospitalSettings, number: int) -> dict[str, object]:
    """Row ``number`` (from 0) of NOTEEVENTS by column, None for a blank field.

    It depends on the seed and its number alone.
    """
    rng = np.random.default_rng([settings.seed, number, _STREAM])
    shares = np.array([share for _, _, share, _ in CATEGORIES])
    chosen = int(rng.choice(len(CATEGORIES), p=shares / shares.sum()))
    category, description, _, timed = CATEGORIES[chosen]
    time = datetime(2101, 1, 1) + timedelta(minutes=int(rng.integers(99 * 365 * 24 * 60)))
    date = time.replace(hour=0, minute=0)
    charted = f"{time:%Y-%m-%d %H:%M:%S}" if timed else None
    return {
        "ROW_ID": number + 1,
        "SUBJECT_ID": int(rng.integers(2, 99_999)),
        "HADM_ID": None if rng.random() < 0.1 else int(rng.integers(100_000, 200_000)),
        "CHARTDATE": f"{date:%Y-%m-%d %H:%M:%S}",
        "CHARTTIME": charted,
        "STORETIME": charted,
        "CATEGORY": category,
        "DESCRIPTION": description,
        "CGID": int(rng.integers(14_000, 21_500)) if timed else None,
        "ISERROR": 1 if rng.random() < 0.01 else None,
        "TEXT": _text(settings, number, category, rng, date),
    }


def _field(value: object) -> str:
    """Strings are quoted, numbers and blanks are not, as in the published dump."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value)


@dataset_writer()
def write_mimic_iii(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the notes."""
    rows = list(each(range(settings.notes), threads, "mimic_iii", note, settings))
    cells: list[list[object]] = [list(rows[0]), *(list(row.values()) for row in rows)]
    lines = [",".join(map(_field, row)) + "\n" for row in cells]
    write_gzip(folder / "NOTEEVENTS.csv.gz", "".join(lines).encode())
    return {"notes": len(rows), "errors": sum(row["ISERROR"] is not None for row in rows)}
