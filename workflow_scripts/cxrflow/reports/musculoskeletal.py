"""Reports of a folder that any hospital can fill: ``reports/<study_id>.txt``.

Headings are those of any hospital (:mod:`.headings`).
"""

from pathlib import Path

from cxrflow.errors import InputError
from cxrflow.files.csv_table import read_csv, require_file
from cxrflow.files.drops import printable
from cxrflow.reports.texts import Listing, RawReport, Reference, read_text_file

STUDIES, FOLDER = "studies.csv", "reports"


class MusculoskeletalReports:
    """A file a study."""

    @staticmethod
    def listing(root: Path) -> Listing:
        """All files, in order; the patient is that of the list of studies."""
        path = require_file(root, STUDIES)
        rows, _ = read_csv(path, {"study_id": "id", "patient_id": "id"})
        patients = dict(zip(rows["study_id"], rows["patient_id"], strict=True))
        files = sorted(
            file for file in (root / FOLDER).glob("[!.]*") if file.suffix.lower() == ".txt"
        )
        if not files:
            raise InputError(f"{root / FOLDER}: no report; expected <study_id>.txt")
        return Listing([Reference(printable(f.stem), patients.get(f.stem), f.name) for f in files])

    def __init__(self, root: Path):
        self._folder = root / FOLDER

    def read(self, reference: Reference) -> RawReport:
        study, subject, place = reference
        text, failure = read_text_file(self._folder / place)
        return RawReport(study, subject, text=text, failure=failure)
