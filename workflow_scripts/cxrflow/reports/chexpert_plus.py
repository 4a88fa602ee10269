"""Reports of CheXpert Plus: sections as published, or cut from the whole text where they are not.

The table has a text for each image; those of a study are differently anonymised versions of one
report. A study has that of its first image. Its columns ``section_findings`` and
``section_impression`` are taken where both hold text and differ. Else the report is read from its
first FINDINGS or IMPRESSION on, without what follows END OF IMPRESSION: the SUMMARY there is a code
of the department and no conclusion, and the narrative before is the name of the examination.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.csv_table import read_csv, require_file
from cxr_files.drops import Drop
from cxr_labels.report import RawReport
from cxrflow.data.layouts import layout
from cxrflow.reports.texts import Listing, Reference

if TYPE_CHECKING:
    import pandas as pd

TEXTS = {"report": "text", "section_findings": "text", "section_impression": "text"}
PATH = r"(?P<study>patient\d+/study\d+)/(?P<image>[^/]+)$"
START = re.compile(r"^\s*(?:FINDINGS?|IMPRESSION|FINDINGS?\s*/\s*IMPRESSION)\s*:", re.M | re.I)
END = re.compile(r"^\s*(?:END OF IMPRESSION|SUMMARY|ACCESSION NUMBER)\s*:?", re.M | re.I)
NARRATIVE = re.compile(r"^\s*NARRATIVE\s*:", re.I)


class CheXpertPlusReports:
    """A report a study, by the row of its first image."""

    @staticmethod
    def listing(root: Path) -> Listing:
        """All studies in the order of the table."""
        rows, damage = _rows(root)
        ids = rows[["study", "deid_patient_id"]].itertuples(index=True)
        return Listing([Reference(study, patient, str(n)) for n, study, patient in ids], (*damage,))

    def __init__(self, root: Path) -> None:
        self._rows = _rows(root)[0]

    def read(self, reference: Reference) -> RawReport:
        """The report, by its sections or as text."""
        study, subject, place = reference
        row = self._rows.loc[int(place)]
        findings, impression = (
            _text(row[f"section_{name}"]) for name in ("findings", "impression")
        )
        if findings and impression and findings != impression:
            sections = {"findings": findings, "impression": impression}
            return RawReport(study, subject, sections=sections)
        text = reported(_text(row["report"]))
        if not text:
            return RawReport(study, subject, failure="no text")
        return RawReport(study, subject, text=text)


def reported(text: str) -> str:
    """The part of a whole report that says what is seen."""
    start = START.search(text)
    text = text[start.start() :] if start else NARRATIVE.sub("", text)
    end = END.search(text)
    return (text[: end.start()] if end else text).strip()


def _text(value: object) -> str:
    """A cell; ``\\n`` is written out in some."""
    return value.replace("\\n", "\n").strip() if isinstance(value, str) else ""


def _rows(root: Path) -> "tuple[pd.DataFrame, list[Drop]]":
    """The rows of the first image of each study."""
    (names,) = layout("chexpert_plus").lists["reports"].values()
    path = require_file(root, *names)
    ids = {"path_to_image": "id", "deid_patient_id": "id"}
    rows, damage = read_csv(path, ids, TEXTS)  # type: ignore[arg-type]
    place = rows["path_to_image"].str.extract(PATH)
    strange = place["study"].isna()
    reason = f"{path.name}: path_to_image has no patient and study"
    damage = [*damage, Drop.of(reason, rows.loc[strange, "path_to_image"], failed=True)]
    rows = rows.join(place)[~strange].sort_values("image", kind="stable")
    return rows.drop_duplicates("study").sort_index(), [drop for drop in damage if drop.count]
