"""The MIMIC-IV copy: ``hosp/patients.csv.gz`` with the patients of the MIMIC-CXR copy.

As in the published table a few of them are missing, and there are patients without a radiograph.
``anchor_year`` lies in the same shifted time as the studies, zero to three years before the first;
nobody is anchored younger than 18, and ages above 89 are written as 91.
"""

from pathlib import Path

import numpy as np

from cxr_hospital.patient import followed, make_patient
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, Row, dataset_writer, each, write_table

COLUMNS = ("subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod")
YEAR_GROUPS = ("2008 - 2010", "2011 - 2013", "2014 - 2016", "2017 - 2019")
YOUNGEST, OLDEST_TOLD, HIDDEN = 18, 89, 91
#: Table C.1 seems to lack the sex of some 0.3 % of MIMIC-CXR's 65,379 patients.
_MISSING, _WITHOUT_RADIOGRAPH, _DIED = 0.005, 0.05, 0.1
_STREAM = 61


def _row(settings: HospitalSettings, index: int) -> Row | None:
    """One patient's row, or None for a patient that MIMIC-IV lacks."""
    rng = np.random.default_rng([settings.seed, index, _STREAM])
    if rng.random() < _MISSING:
        return None
    patient = make_patient(settings, index)
    first, last = patient.studies[0].time, patient.studies[-1].time
    earlier = min(int(rng.integers(0, 4)), max(0, patient.age - YOUNGEST))
    age = patient.age - earlier
    dead = rng.random() < _DIED
    return (
        patient.subject_id,
        patient.sex,
        HIDDEN if age > OLDEST_TOLD else age,
        first.year - earlier,
        YEAR_GROUPS[int(rng.integers(len(YEAR_GROUPS)))],
        f"{last.year + 1}-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}" if dead else None,
    )


@dataset_writer()
def write_mimic_iv(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the table."""
    extra = round(_WITHOUT_RADIOGRAPH * settings.patients)
    indices = [*range(settings.patients + extra), *followed(settings)]
    rows = list(each(indices, threads, "mimic_iv", _row, settings))
    table = sorted((row for row in rows if row is not None), key=lambda row: str(row[0]))
    (folder / "hosp").mkdir()
    write_table(folder / "hosp" / "patients.csv.gz", COLUMNS, table)
    return {"patients": len(table), "missing": len(rows) - len(table)}
