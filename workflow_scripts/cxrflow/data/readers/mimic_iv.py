"""MIMIC-IV ``hosp/patients.csv``: sex and age of MIMIC-CXR's patients (BioViL Table C.1).

MIMIC-IV and MIMIC-CXR share patient ids and the random shift of each patient's dates. A patient has
one age, ``anchor_age``, in one shifted year, ``anchor_year``; ages above 89 are all written as 91.
Not every patient of MIMIC-CXR is in it.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import require_file
from cxr_files.drops import Drop
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import read_once, without

LISTS = layout("mimic_iv").lists["demographics"]
OLDEST = 120  # years; more is a damaged row


def read_patients(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Read the patients.

    Args:
        root: MIMIC-IV's folder (that of ``hosp/``), or ``hosp`` itself.

    Returns:
        ``subject_id`` (str), ``gender`` (F or M), ``anchor_age`` and ``anchor_year`` (float,
        years), one row a patient; and the rows that cannot be used, by reason.

    Raises:
        InputError: the file is absent or damaged, lacks a column, or has a patient twice.
    """
    path = require_file(root, *LISTS["patients"])
    rows, drops = read_once(
        path,
        {
            **{"subject_id": "bare", "gender": "id"},
            **{"anchor_age": "value", "anchor_year": "value"},
        },
        "subject_id",
    )
    age = f"{path.name}: anchor_age is not in 0 to {OLDEST}"
    tests = {
        f"{path.name}: gender is neither F nor M": ~rows["gender"].isin(["F", "M"]),
        age: ~rows["anchor_age"].between(0, OLDEST),
    }
    rows, wrong = without(rows, rows["subject_id"], tests)
    return rows.reset_index(drop=True), drops + wrong


def ages(patients: pd.DataFrame, subjects: pd.Series, years: pd.Series) -> pd.Series:
    """Return the age [N] of each patient in a shifted year; NaN if either is unknown."""
    by_patient = patients.set_index("subject_id")
    # Mapped to nothing at all, a column of names would stay one of text.
    age, year = (
        subjects.map(by_patient[name]).astype("float64") for name in ("anchor_age", "anchor_year")
    )
    return age + (years.astype("float64") - year)
