"""Reports to label: a table's columns of text, standard input, or text files."""

import csv
import logging
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cxrflow.errors import InputError
from cxrflow.files.csv_table import is_sentence, open_table, read_text, shown
from cxrflow.files.drops import Drop, printable
from cxrflow.files.folders import walk_files
from cxrflow.files.parquet import read_table
from cxrflow.reports.labels.statements import states_something
from cxrflow.reports.texts import RawReport, read_text_file

log = logging.getLogger(__name__)

STANDARD_INPUT = Path("standard input")
# Names of text columns, in lower case: of complete reports, and of their sections.
WHOLE = ("report", "reports", "report text", "radiology report", "full report", "text")
PARTS = {
    "findings": ("findings", "finding", "report findings"),
    "impression": ("impression", "impressions", "report impression", "conclusion", "conclusions"),
}
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True)
class TextSource:
    """Reports to label: a "table" or "files" at ``root``; ``total`` counts them."""

    kind: str
    root: Path
    id_name: str
    total: int
    reports: Iterator[RawReport]
    text_columns: tuple[str, ...] = ()
    separator: str | None = None


def find_source(
    path: Path, text_columns: Sequence[str] = (), id_column: str | None = None
) -> TextSource:
    """The reports at ``path`` ("-": a CSV on standard input); arguments as of the command line.

    Raises:
        InputError: nothing there, not readable, no or unclear text columns, or an id repeated.
    """
    if str(path) == "-":
        return _standard_input(text_columns, id_column)
    if not path.exists():
        raise InputError(f"{path}: not found")
    single = path.suffix.lower() == ".txt"
    if path.is_file() and not single:
        return _table(path, text_columns, id_column)
    if text_columns or id_column:
        raise InputError(
            f"{path}: --text-column and --id-column are for tables, and this is no table"
        )
    root = path.parent if single else path
    files = [Path(path.name)] if single else sorted(_text_files(path))
    if not files:
        raise InputError(
            f"{path}: no .txt file below it; cxrflow.reports.corpus labels the reports of data sets"
        )
    return TextSource("files", path, "path", len(files), (_read_file(root, file) for file in files))


def _text_files(root: Path) -> Iterator[Path]:
    """Text files below a folder; a folder that cannot be read is an InputError that names it."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: folder cannot be read ({error.strerror})")

    for file in walk_files(root, onerror=refuse):
        if file.name.lower().endswith(".txt"):
            yield file.relative_to(root)


def _read_file(root: Path, file: Path) -> RawReport:
    name, path = printable(str(file)), root / file
    if not path.is_file():  # a pipe would be waited for
        return RawReport(name, None, failure="file cannot be read")
    text, failure = read_text_file(path)
    return RawReport(name, None, text=text, failure=failure)


def _standard_input(text_columns: Sequence[str], id_column: str | None) -> TextSource:
    """A CSV from standard input, through a file: it may have to be read a second time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.csv"
        with open(path, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            return _table(path, text_columns, id_column, STANDARD_INPUT)
        except InputError as error:
            raise InputError(str(error).replace(str(path), "standard input")) from None


def _table(
    path: Path, text_columns: Sequence[str], id_column: str | None, root: Path | None = None
) -> TextSource:
    name, separator = path.name.lower(), None
    if name.endswith(".parquet"):
        frame = read_table(path)
    elif name.endswith(TABLES):
        separator = _separator(path)
        frame, damaged = read_text(path, separator)
        if _is_headerless(frame, text_columns):
            frame, damaged = _headerless(path, separator)
        for drop in damaged:
            raise InputError(
                f"{drop.reason}: {', '.join(drop.examples)} (a text that holds the "
                f"{SEPARATORS[separator]} between columns needs quotes)"
            )
    else:
        kinds = ", ".join((*TABLES, ".parquet"))
        raise InputError(f"{path}: expected a folder, a .txt file or a name ending in {kinds}")
    columns = [str(name) for name in frame.columns]
    chosen = list(dict.fromkeys(text_columns)) or _text_columns(path, columns)
    for name in (*chosen, *([id_column] if id_column else [])):
        if name not in columns or f"{name}.1" in columns:  # pandas numbers repeated names
            raise InputError(f"{path}: expected one column '{name}'; found {_quoted(columns)}")
    if frame.empty:
        raise InputError(f"{path}: holds no row")
    texts = {_section_of(name) or name: _texts(path, frame, name) for name in chosen}
    by_section = len(texts) > 1 and set(texts) <= set(PARTS)
    numbers = pd.Series(range(len(frame))).astype("str")
    ids = numbers if id_column is None else _ids(frame, path, id_column)
    reports = (
        RawReport(name, None, sections=dict(zip(texts, row, strict=True)))
        if by_section
        else RawReport(name, None, text="\n\n".join(text for text in row if text))
        for name, *row in zip(ids, *texts.values(), strict=True)
    )
    note = f" (parted by {SEPARATORS[separator]})" if separator not in (None, ",") else ""
    log.info("%s%s: labelled is the text of %s", root or path, note, _quoted(chosen))
    return TextSource(
        "table", root or path, id_column or "row", len(frame), reports, tuple(chosen), separator
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{shown(name)}'" for name in names)


def _is_headerless(frame: pd.DataFrame, text_columns: Sequence[str]) -> bool:
    """True if the first line is no header but a report: the form CheXpert's labeller takes.

    A header never reads like a report. Where it is one word of the body, as in "Normal", the name
    is none that a column of reports has.
    """
    names = [str(name) for name in frame.columns]
    if set(text_columns) & set(names) or any(map(_is_text_name, names)):
        return False
    return any(map(is_sentence, names)) or (len(names) == 1 and states_something(names))


def _headerless(path: Path, separator: str) -> tuple[pd.DataFrame, list[Drop]]:
    """Read a table of one column of reports without a header."""
    frame, damaged = read_text(path, separator, header=False)
    if frame.shape[1] > 1:
        raise InputError(
            f"{path}: the first line is a report, not the names of {frame.shape[1]} columns parted "
            f"by {SEPARATORS[separator]}; expected a header such as id,report, or one column of "
            "reports, each in quotes"
        )
    log.info("%s: has no header; its first line is the first report", path)
    return frame.set_axis(["report"], axis=1), damaged


def _separator(path: Path) -> str:
    """The separator that cuts the header into most columns; a comma among equals."""
    try:
        with open_table(path) as table:
            header = str(table.readline())
    except (InputError, OSError, EOFError, UnicodeDecodeError, ValueError, zlib.error):
        return ","  # reading the table reports the error
    column_counts = {
        separator: len(next(csv.reader([header.rstrip("\r\n")], delimiter=separator), []))
        for separator in SEPARATORS
    }
    return max(column_counts, key=lambda separator: column_counts[separator])


def _plain(column: str) -> str:
    return column.strip().lower().replace("_", " ")


def _is_text_name(column: str) -> bool:
    return _plain(column) in WHOLE or _section_of(column) is not None


def _section_of(column: str) -> str | None:
    """The section that a column of this name holds."""
    return next((section for section, names in PARTS.items() if _plain(column) in names), None)


def _text_columns(path: Path, columns: list[str]) -> list[str]:
    """The one column of reports, or one each of findings and impression; else an InputError."""
    if len(columns) == 1:
        return columns
    full = [column for column in columns if _plain(column) in WHOLE]
    parted = [column for section in PARTS for column in columns if _section_of(column) == section]
    if len(full) + len(parted) != 1 and (
        full or len(parted) != 2 or len(set(map(_section_of, parted))) == 1
    ):
        raise InputError(
            f"{path}: {len(full) + len(parted)} columns look like the report's text; name it with "
            f"--text-column (again for each of several); found {_quoted(columns)}"
        )
    return full or parted


def _texts(path: Path, frame: pd.DataFrame, column: str) -> list[str]:
    texts = frame[column]
    if isinstance(texts.dtype, pd.CategoricalDtype):
        texts = texts.astype(texts.dtype.categories.dtype)
    if not (pd.api.types.is_string_dtype(texts) or texts.isna().all()):
        raise InputError(f"{path}: column '{column}' holds {texts.dtype}, expected text")
    return ["" if pd.isna(text) else text for text in texts]


def _ids(frame: pd.DataFrame, path: Path, column: str) -> pd.Series:
    ids = frame[column].astype("str")
    blank = frame[column].isna() | (ids.str.strip() == "")
    if blank.any():
        raise InputError(f"{path}: row {int(blank.to_numpy().argmax())} has no id")
    twice = ids[ids.duplicated()]
    if len(twice):
        raise InputError(f"{path}: id '{twice.iloc[0]}' is given twice")
    return ids
