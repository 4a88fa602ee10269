"""The MIMIC-III copy: ``NOTEEVENTS.csv.gz`` of version 1.4, text quoted over several lines."""

from pathlib import Path

from cxrflow.phantom.notes import note
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import Counts, dataset_writer, each, write_gzip

COLUMNS = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY"),
    *("DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)


def _field(value: object) -> str:
    """Strings are quoted, numbers and blanks are not, as in the published dump."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value)


@dataset_writer()
def write_mimic_iii(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the notes."""
    rows = list(each(range(settings.notes), threads, "mimic_iii", note, settings))
    lines = [",".join(map(_field, row)) + "\n" for row in (COLUMNS, *rows)]
    write_gzip(folder / "NOTEEVENTS.csv.gz", "".join(lines).encode())
    errors = COLUMNS.index("ISERROR")
    return {"notes": len(rows), "errors": sum(row[errors] is not None for row in rows)}
