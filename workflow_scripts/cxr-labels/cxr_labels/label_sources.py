"""Reports to label: a table's columns of text, standard input, or text files."""

import csv
import logging
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import (
    UnevenRowsError,
    column_names,
    is_sentence,
    open_table,
    read_text,
    shown,
    text_chunks,
)
from cxr_files.drops import printable
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
from cxr_files.parquet import table_chunks, table_columns
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.report import RawReport, read_text_file
from cxr_labels.statements import states_something

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
            f"{path}: no .txt file below it; expected a folder of reports, a text file for each"
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
    """A CSV from standard input, through a file: it is read more than once."""
    folder = tempfile.TemporaryDirectory()  # noqa: SIM115 deleted when its reports are read
    path = Path(folder.name) / "input.csv"
    try:
        with open(path, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        source = _table(path, text_columns, id_column, STANDARD_INPUT)
    except InputError as error:
        folder.cleanup()
        raise InputError(str(error).replace(str(path), "standard input")) from None
    return replace(source, reports=_until_read(source.reports, folder))


def _until_read(
    reports: Iterator[RawReport], folder: tempfile.TemporaryDirectory[str]
) -> Iterator[RawReport]:
    with folder:
        yield from reports


def _table(
    path: Path, text_columns: Sequence[str], id_column: str | None, root: Path | None = None
) -> TextSource:
    """The reports of a table, which is read twice and never held as a whole."""
    name, separator, header = path.name.lower(), None, True
    if name.endswith(".parquet"):
        columns = table_columns(path)
    elif name.endswith(TABLES):
        separator = _separator(path)
        columns = column_names(path, separator)
        if _is_headerless(columns, text_columns):
            columns, header = _headerless(path, separator, columns), False
    else:
        kinds = ", ".join((*TABLES, ".parquet"))
        raise InputError(f"{path}: expected a folder, a .txt file or a name ending in {kinds}")
    chosen = list(dict.fromkeys(text_columns)) or _text_columns(path, columns)
    needed = [*chosen, *([id_column] if id_column else [])]
    for name in needed:
        if name not in columns or f"{name}.1" in columns:  # pandas numbers repeated names
            raise InputError(f"{path}: expected one column '{name}'; found {_quoted(columns)}")
    frames: Callable[[], Iterator[pd.DataFrame]]
    if separator is None:
        frames = partial(table_chunks, path, list(dict.fromkeys(needed)))
    else:
        frames = partial(_named, path, separator, header, columns)
    try:
        total = _survey(path, frames(), chosen, id_column)
    except UnevenRowsError:
        frames = partial(iter, [_even(path, str(separator), header).set_axis(columns, axis=1)])
        total = _survey(path, frames(), chosen, id_column)
    note = f" (parted by {SEPARATORS[separator]})" if separator not in (None, ",") else ""
    ids = f"'{id_column}'" if id_column else "their number, from 0 (--id-column names another)"
    log.info(
        "%s%s: labelled is the text of %s; rows are named by %s",
        *(root or path, note, _quoted(chosen), ids),
    )
    reports = _reports(path, frames(), chosen, id_column)
    return TextSource(
        "table", root or path, id_column or "row", total, reports, tuple(chosen), separator
    )


def _headerless(path: Path, separator: str, names: Sequence[str]) -> list[str]:
    """The name of the only column of a table without a header."""
    if len(names) > 1:
        raise InputError(
            f"{path}: the first line is a report, not the names of {len(names)} columns parted "
            f"by {SEPARATORS[separator]}; expected a header such as id,report, or one column of "
            "reports, each in quotes"
        )
    log.info("%s: has no header; its first line is the first report", path)
    return ["report"]


def _named(
    path: Path, separator: str, header: bool, columns: Sequence[str]
) -> Iterator[pd.DataFrame]:
    """The rows of a CSV in pieces, under the names of its columns."""
    for frame in text_chunks(path, separator, header):
        yield frame.set_axis(list(columns), axis=1)


def _even(path: Path, separator: str, header: bool) -> pd.DataFrame:
    """The whole table; an InputError names its rows of another length than the first."""
    frame, damaged = read_text(path, separator, header)
    for drop in damaged:
        raise InputError(
            f"{drop.reason}: {', '.join(drop.examples)} (a text that holds the "
            f"{SEPARATORS[separator]} between columns needs quotes)"
        )
    return frame


def _survey(
    path: Path, frames: Iterable[pd.DataFrame], chosen: Sequence[str], id_column: str | None
) -> int:
    """Return the number of rows; raise InputError where they cannot be read or told apart."""
    total, ids = 0, []
    for frame in frames:
        total += len(frame)
        for name in chosen:
            _texts(path, frame, name)
        if id_column is not None:
            ids.append(frame[id_column])
    if total == 0:
        raise InputError(f"{path}: holds no row")
    if id_column is not None:
        _require_ids(pd.concat(ids, ignore_index=True), path)
    return total


def _reports(
    path: Path, frames: Iterable[pd.DataFrame], chosen: Sequence[str], id_column: str | None
) -> Iterator[RawReport]:
    sections = [_section_of(name) or name for name in chosen]
    by_section = 1 < len(sections) == len(set(sections)) and set(sections) <= set(PARTS)
    total = 0
    for frame in frames:
        numbers = map(str, range(total, total + len(frame)))
        ids = numbers if id_column is None else frame[id_column].astype("str")
        total += len(frame)
        for name, *row in zip(ids, *(_texts(path, frame, name) for name in chosen), strict=True):
            if by_section:
                yield RawReport(name, None, sections=dict(zip(sections, row, strict=True)))
            else:
                yield RawReport(name, None, text="\n\n".join(text for text in row if text))


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{_without_text(name)}'" for name in names)


def _without_text(name: str) -> str:
    """A column's name; of a name that may be a report's text its length."""
    states = len(name.split()) > 1 and name not in OBSERVATIONS and states_something([name])
    return f"(a text of {len(name)} characters)" if states else shown(name)


def _is_headerless(names: Sequence[str], text_columns: Sequence[str]) -> bool:
    """True if the first line is no header but a report: the form CheXpert's labeller takes.

    A header never reads like a report. Where it is one word of the body, as in "Normal", the name
    is none that a column of reports has.
    """
    if set(text_columns) & set(names) or any(map(_is_text_name, names)):
        return False
    return any(map(is_sentence, names)) or (len(names) == 1 and states_something(names))


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


def _require_ids(ids: pd.Series, path: Path) -> None:
    texts = ids.astype("str")
    blank = ids.isna() | (texts.str.strip() == "")
    if blank.any():
        raise InputError(f"{path}: row {int(blank.to_numpy().argmax())} has no id")
    if pd.api.types.is_float_dtype(ids):  # of a long id the last digits are lost, or a zero is new
        raise InputError(
            f"{path}: column '{ids.name}' holds {ids.dtype}; expected ids as text or whole numbers"
        )
    twice = texts[texts.duplicated()]
    if len(twice):
        raise InputError(f"{path}: id '{twice.iloc[0]}' is given twice")
