"""Reference labels: MIMIC-CXR-JPG's tables, a table of the user's, Open-I's index terms.

A table has a row for each study, a column of study ids and a column for each observation, in any
order: 1 positive, 0 negative, -1 uncertain, blank not mentioned. Such are MIMIC-CXR-JPG's
``-chexpert`` and ``-negbio`` tables, its radiologist's table (which calls Lung Opacity "Airspace
Opacity") and the output of the CheXpert labeller and of CheXbert with study ids added. Further
columns are ignored.
"""

import logging
from pathlib import Path

import numpy as np
import pandas as pd

from cxr_files.csv_table import Kind, bare_ids, find_file, read_csv
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_labels.observations import OBSERVATIONS
from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.data.readers.open_i import read_term_labels

log = logging.getLogger("cxrflow")

SYNONYMS = {"Airspace Opacity": "Lung Opacity"}


def read_reference_labels(path: Path, settings: LabelAgreementSettings) -> pd.DataFrame:
    """Return ``study_id`` and the observations as 1, 0, -1 or NaN, in their usual order.

    A row without any label stays: its study mentions nothing.

    Args:
        path: a CSV file, plain or gzipped whatever the ending says, or ``.parquet``; for index
            terms the folder of Open-I.

    Raises:
        InputError: no such file, no observation in it, or a bad or repeated row, which is named.
    """
    if settings.layout == "open_i":
        table = read_term_labels(path)
    else:
        table = _read_table(path, settings.id_column)
    names = [name for name in OBSERVATIONS if name in table]
    if not names:
        raise InputError(
            f"{path}: no column is named like an observation ({', '.join(OBSERVATIONS)}); "
            f"found {', '.join(map(str, table.columns))}"
        )
    missing = [name for name in OBSERVATIONS if name not in table]
    if missing:
        log.info("%s does not label %s", path.name, ", ".join(missing))
    labels = pd.DataFrame({"study_id": table["study_id"].astype("str")})
    for name in names:
        labels[name] = _numbers(table[name], path, name)
    repeated = labels["study_id"].duplicated(keep=False)
    if repeated.any():
        study = labels.loc[repeated, "study_id"].iloc[0]
        places = np.flatnonzero(labels["study_id"] == study) + 1
        raise InputError(
            f"{path}: data rows {', '.join(map(str, places[:5]))} are all of study {study!r}; "
            "expected each study once"
        )
    if labels.empty:
        raise InputError(f"{path}: it labels no report; expected at least one")
    return labels


def _read_table(path: Path, id_column: str) -> pd.DataFrame:
    """Return a table's columns with ``study_id``, the study ids without prefix."""
    if path.suffix == ".parquet":
        table = read_table(path, [id_column])
    else:
        file = find_file(path.parent, path.name, path.name.removesuffix(".gz"))
        if file is None:
            raise InputError(f"{path}: file not found (plain or .gz); expected a table of labels")
        optional: dict[str, Kind] = dict.fromkeys([*OBSERVATIONS, *SYNONYMS], "text")
        table, damaged = read_csv(file, {id_column: "text"}, optional)
        for drop in damaged:
            raise InputError(f"{drop.reason}: {', '.join(drop.examples)}")
        # read_csv fills an absent column with nulls, which would pass as "not mentioned".
        header = pd.read_csv(file, nrows=0).columns.str.strip()
        table = table[[name for name in table if name in header]]
    for synonym, name in SYNONYMS.items():
        if synonym in table and name not in table:
            table = table.rename(columns={synonym: name})
    ids = table[id_column]
    blank = ids.isna() | (ids.astype("str").str.strip() == "")
    if blank.any():
        row = int(np.flatnonzero(blank)[0]) + 1
        raise InputError(f"{path}: data row {row}: '{id_column}' is blank; expected a study id")
    return table.assign(study_id=bare_ids(ids.astype("str").str.strip()))


def _numbers(values: pd.Series, path: Path, name: str) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce").astype("float64")
    wrong = (numbers.isna() & values.notna()) | ~(numbers.isna() | numbers.isin((1, 0, -1)))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{path}: data row {row + 1}: '{name}' is {str(values.iloc[row])!r}; "
            "expected 1, 0, -1 or blank"
        )
    return numbers
