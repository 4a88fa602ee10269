"""The MIMIC-III copy: ``NOTEEVENTS.csv.gz`` of version 1.4, text quoted over several lines."""

from datetime import datetime
from pathlib import Path

from cxrflow.phantom.notes import Note, note
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import Counts, Row, dataset_writer, each, write_gzip

COLUMNS = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY"),
    *("DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)


def _stamp(time: datetime | None) -> str | None:
    return None if time is None else f"{time:%Y-%m-%d %H:%M:%S}"


def _row(number: int, made: Note) -> Row:
    return (
        number,
        made.subject,
        made.admission,
        _stamp(made.date),
        _stamp(made.time),
        _stamp(made.time),
        made.category,
        made.description,
        made.caregiver,
        1 if made.error else None,
        made.text,
    )


def _field(value: object) -> str:
    """Strings are quoted, numbers and blanks are not, as in the published dump."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value)


@dataset_writer()
def write_mimic_iii(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write the notes."""
    notes = list(each(range(settings.notes), threads, "mimic_iii", note, settings))
    rows = [_row(number, made) for number, made in enumerate(notes, 1)]
    lines = [",".join(map(_field, row)) + "\n" for row in (COLUMNS, *rows)]
    write_gzip(folder / "NOTEEVENTS.csv.gz", "".join(lines).encode())
    return {"notes": len(rows), "errors": sum(made.error for made in notes)}
