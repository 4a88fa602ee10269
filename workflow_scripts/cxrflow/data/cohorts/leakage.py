"""Checks that nothing of the evaluation stands in training. A failed check stops the cohort.

Three quarters of MS-CXR's patients are in MIMIC-CXR's official training split; RSNA's images are
NIH's. Each function returns the sentence that ``flow.json`` shows when the check is passed.
"""

from collections.abc import Mapping, Set

import pandas as pd

from cxr_files.errors import InputError
from cxrflow.data.readers.common_tables import require_none, require_unique


def unique_rows(rows: pd.DataFrame, unit: str, source: object) -> str:
    """Check that no ``unit`` (study or image) occurs in two rows."""
    require_unique(rows, f"{unit}_id", source)
    return f"{len(rows)} rows, no {unit} twice"


def patient_in_one_split(rows: pd.DataFrame, source: object) -> str:
    """Check that no ``subject_id`` occurs in two splits."""
    return _in_one_split(rows.dropna(subset="subject_id"), "subject_id", "patient", source)


def image_in_one_split(rows: pd.DataFrame, source: object) -> str:
    """Check that no image, by id or by path, occurs in two splits."""
    _in_one_split(rows.dropna(subset="image_id"), "image_id", "image", source)
    return _in_one_split(rows.dropna(subset="image_path"), "image_path", "image", source)


def _in_one_split(rows: pd.DataFrame, column: str, noun: str, source: object) -> str:
    counts = rows.groupby(column)["split"].nunique()
    leaking = counts.index[counts > 1]
    require_none(leaking, source, f"{noun}(s) stand in two splits", "expected each in one")
    return f"{len(counts)} {noun}s, each in one split"


def held_out_not_trained(
    rows: pd.DataFrame, held_out: Mapping[str, Set[str]], source: object
) -> str:
    """Check that patients are known and none that is held out is in train or validate."""
    # Without patients the check below would pass for want of anything to compare.
    if rows["subject_id"].isna().all():
        names = ", ".join(held_out)
        raise InputError(f"{source}: patients are not known; those of {names} cannot be held out")
    trained_on = set(rows.loc[rows["split"] != "test", "subject_id"].dropna())
    for name, patients in held_out.items():
        wrong = f"patient(s) of {name} are in train or validate"
        require_none(sorted(trained_on & patients), source, wrong, "expected them in test")
    sizes = ", ".join(f"{name} ({len(patients)})" for name, patients in held_out.items())
    return f"no patient of {sizes} in train or validate"


def prior_of_same_patient(pairs: pd.DataFrame, owner: pd.Series, source: object) -> str:
    """Check that each prior study is the patient's own, hence in the same split."""
    with_prior = pairs.dropna(subset="prior_study_id")
    wrong = with_prior[with_prior["prior_study_id"].map(owner) != with_prior["subject_id"]]
    if len(wrong):
        raise InputError(
            f"{source}: the prior of {len(wrong)} studies is another patient's "
            f"({', '.join(wrong['study_id'][:5])})"
        )
    return f"{len(with_prior)} priors, each of the study's own patient"
