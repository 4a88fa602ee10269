"""Reports as hospitals have them, as one table of text: CSV, TSV, XLSX, or a folder of text files.

Of a folder the columns are what a file's name says: the name, its parts, and the folders around it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.csv_table import read_text
from cxr_files.csv_text import shown, unique_names
from cxr_files.drops import Drop, Tally, printable
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
from cxr_labels.label_sources import SEPARATORS, separator_of
from cxr_labels.report import read_text_file

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TEXT = "text of the file"
PARTS = re.compile(r"[_\s-]+")
MOST_DAMAGED = 0.05  # share of rows


@dataclass(frozen=True)
class ReportTable:
    """Reports with what stands beside them.

    Attributes:
        source: the table or folder.
        rows: a row a report, all columns as text; the index says where it stands.
        kind: in words, for the person who reads it.
        dropped: rows and files that cannot be read.
    """

    source: Path
    rows: pd.DataFrame
    kind: str
    dropped: list[Drop] = field(default_factory=list)

    @property
    def columns(self) -> str:
        """The names of the columns as an error shows them."""
        return ", ".join(f"'{shown(str(name))}'" for name in self.rows)


def read_reports(path: Path) -> ReportTable:
    """Read a table or a folder of reports.

    Raises:
        InputError: there is none, it holds no report, or more than 5 % of its rows are damaged.
    """
    name = path.name.lower()
    if path.is_dir():
        table = _folder(path)
    elif not path.is_file():
        raise InputError(f"{path}: not found; expected a table or a folder of reports")
    elif name.endswith(TABLES):
        separator = separator_of(path)
        rows, damage = read_text(path, separator)
        table = ReportTable(path, rows, f"table parted by {SEPARATORS[separator]}", damage)
    elif name.endswith((".xlsx", ".xlsm")):
        table = _workbook(path)
    else:
        raise InputError(
            f"{path}: expected a folder of .txt files, or a name ending in "
            f"{', '.join((*TABLES, '.xlsx'))}"
        )
    if table.rows.empty:
        raise InputError(f"{path}: holds no report")
    Tally("reports read", "reports", len(table.rows), table.dropped).require_few(
        path, MOST_DAMAGED, "the share of damaged rows"
    )
    names = unique_names([str(name).strip() for name in table.rows])
    return ReportTable(path, table.rows.set_axis(names, axis=1), table.kind, table.dropped)


def _folder(root: Path) -> ReportTable:
    files = [file for file in walk_files(root) if file.suffix.lower() == ".txt"]
    rows, places, tally = [], [], Tally("reports read", "reports")
    for file in files:
        place = file.relative_to(root)
        text, failure = read_text_file(file)
        if text is None or printable(str(place)) != str(place):
            tally.drop(failure or "name is not UTF-8", [place], failed=True)
            continue
        rows.append({**dict(_named(place)), TEXT: text})
        places.append(place.as_posix())
    if not files:
        raise InputError(f"{root}: no .txt file below it; expected a text file for each report")
    table = pd.DataFrame(rows, index=places, dtype="str")
    return ReportTable(root, table, "folder of text files", tally.drops)


def _named(place: Path) -> Iterator[tuple[str, str]]:
    """What the name of a report says."""
    yield "name", place.stem
    parts = [part for part in PARTS.split(place.stem) if part]
    for number, part in enumerate(parts if len(parts) > 1 else (), start=1):
        yield f"name, part {number}", part
    for number, folder in enumerate(reversed(place.parent.parts), start=1):
        yield "folder" if number == 1 else f"folder {number} levels up", folder


def _workbook(path: Path) -> ReportTable:
    """The sheet with most rows of a workbook."""
    try:
        sheets = pd.read_excel(
            path, sheet_name=None, header=None, dtype=object, na_filter=False, engine="openpyxl"
        )
    except ImportError:
        raise InputError(
            f"{path}: openpyxl is not installed, which reads workbooks: pip install openpyxl, or "
            "save the sheet as CSV UTF-8"
        ) from None
    except Exception as error:  # of zip, XML and openpyxl's own, without a common base
        raise InputError(f"{path}: no workbook ({type(error).__name__}); expected .xlsx") from None
    title = max(sheets, key=lambda name: len(sheets[name]))
    cells = sheets[title]
    if cells.empty:
        raise InputError(f"{path}: holds no row")
    names = [_cell(name) or f"column {n}" for n, name in enumerate(cells.iloc[0], start=1)]
    texts = (
        cells.map(_cell).set_axis(range(1, len(cells) + 1)).set_axis(unique_names(names), axis=1)
    )
    table = texts.iloc[1:].dropna(how="all").astype("str")
    return ReportTable(path, table, f"sheet '{title}' of a workbook")


def _cell(value: Any) -> str | None:
    """A cell as text: whole numbers without a point, dates in ISO 8601."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value).strip() or None
