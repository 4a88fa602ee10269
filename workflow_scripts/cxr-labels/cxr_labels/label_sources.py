"""Reports to label: a table's columns of text, standard input, or text files."""

import csv
import logging
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat, tee
from pathlib import Path
from typing import Any

from cxr_files.csv_text import column_names, is_sentence, open_table, shown, text_rows
from cxr_files.drops import EXAMPLES, printable
from cxr_files.errors import InputError
from cxr_files.folders import walk_files
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
# Arrow's types of text, and of numbers in which an id loses digits.
TEXT_TYPES = ("string", "large_string", "string_view", "null", "dictionary<values=string")
INEXACT = ("halffloat", "float", "double")
NESTED = ("list", "large_list", "fixed_size", "struct", "map", "binary", "large_binary")
OUTPUT = {"row", "outcome", *OBSERVATIONS}  # columns of the labels
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True)
class TextSource:
    """Reports to label: a "table" or "files" at ``root``; ``total`` counts them.

    ``beside`` are other columns of the table, and ``values`` theirs, a tuple a report.
    """

    kind: str
    root: Path
    id_name: str
    total: int
    reports: Iterator[RawReport]
    text_columns: tuple[str, ...] = ()
    separator: str | None = None
    beside: tuple[str, ...] = ()
    values: Iterator[tuple[str, ...]] = field(default_factory=lambda: repeat(()))


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
    types: Mapping[str, str] = {}
    if name.endswith(".parquet"):
        from cxr_files.parquet import table_columns, table_rows

        types = table_columns(path)
        columns = list(types)
    elif name.endswith(TABLES):
        separator = separator_of(path)
        columns = column_names(path, separator)
        if _is_headerless(columns, text_columns):
            columns, header = _headerless(path, separator, columns), False
    else:
        kinds = ", ".join((*TABLES, ".parquet"))
        raise InputError(f"{path}: expected a folder, a .txt file or a name ending in {kinds}")
    chosen = list(dict.fromkeys(text_columns)) or _text_columns(path, columns)
    for name in (*chosen, *([id_column] if id_column else [])):
        if name not in columns or f"{name}.1" in columns:  # repeated names are numbered
            raise InputError(f"{path}: expected one column '{name}'; found {_quoted(columns)}")
    for name in chosen:
        if types and not types[name].startswith(TEXT_TYPES):
            raise InputError(f"{path}: column '{name}' holds {types[name]}, expected text")
    if id_column and types.get(id_column) in INEXACT:  # digits of a long id are lost
        raise InputError(
            f"{path}: column '{id_column}' holds {types[id_column]}; "
            "expected ids as text or whole numbers"
        )
    others = [] if id_column else [name for name in columns if name not in chosen]
    beside = [
        name
        for name in others
        if name not in OUTPUT
        and not is_text_name(name)
        and not types.get(name, "").startswith(NESTED)
    ]
    rows: Callable[[], Iterator[Sequence[Any]]]
    if separator is None:
        columns = list(dict.fromkeys([*chosen, *([id_column] if id_column else []), *beside]))
        rows = partial(table_rows, path, columns)
    else:
        rows = partial(_csv_rows, path, separator, header, len(columns))
    places = {name: columns.index(name) for name in columns}
    id_place = places[id_column] if id_column else None
    total, with_text = _survey(path, rows(), id_place, [places[name] for name in beside])
    beside = [name for name in beside if places[name] not in with_text]
    note = f" (parted by {SEPARATORS[separator]})" if separator not in (None, ",") else ""
    ids = f"'{id_column}'" if id_column else "their number, from 0 (--id-column names another)"
    log.info(
        "%s%s: labelled is the text of %s; rows are named by %s",
        *(root or path, note, _quoted(chosen), ids),
    )
    if others:
        left_out = [name for name in others if name not in beside]
        log.info(
            "beside the labels stand %s%s",
            _quoted(beside) or "no other columns",
            f", but not {_quoted(left_out)}: text, or no value of a CSV" if left_out else "",
        )
    read, again = tee(rows())
    return TextSource(
        kind="table",
        root=root or path,
        id_name=id_column or "row",
        total=total,
        reports=_reports(read, [(name, places[name]) for name in chosen], id_place),
        text_columns=tuple(chosen),
        separator=separator,
        beside=tuple(beside),
        values=(tuple(_text(row[places[name]]) for name in beside) for row in again),
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


def _csv_rows(path: Path, separator: str, header: bool, width: int) -> Iterator[list[str]]:
    """The rows of a CSV below its header, filled up with blanks.

    Raises:
        InputError: a row is longer than the first, which is said after the last.
    """
    longer = []
    for number, (line, row) in enumerate(text_rows(path, separator)):
        if number == 0 and header:
            continue
        if len(row) > width:
            longer.append(f"{path}:{line}")
        yield row + [""] * (width - len(row))
    if longer:
        raise InputError(
            f"{path.name}: wrong number of fields (expected {width}): "
            f"{', '.join(longer[:EXAMPLES])} (a text that holds the {SEPARATORS[separator]} "
            "between columns needs quotes)"
        )


def _survey(
    path: Path, rows: Iterable[Sequence[Any]], id_place: int | None, beside: Sequence[int]
) -> tuple[int, set[int]]:
    """Return the number of rows, and which of the places ``beside`` hold report text.

    Raises:
        InputError: they cannot be read, or told apart by their ids.
    """
    total, ids, with_text = 0, set[str](), set[int]()
    for row in rows:
        for place in beside:
            value = row[place]
            if place not in with_text and isinstance(value, str) and _is_text(value):
                with_text.add(place)
        if id_place is not None:
            name = _text(row[id_place])
            if not name.strip():
                raise InputError(f"{path}: row {total} has no id")
            if name in ids:
                raise InputError(f"{path}: id '{name}' is given twice")
            ids.add(name)
        total += 1
    if total == 0:
        raise InputError(f"{path}: holds no row")
    return total, with_text


def _is_text(value: str) -> bool:
    """True if a value reads like a report: what a file of labels must not hold."""
    return is_sentence(value) or states_something([value])


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _reports(
    rows: Iterable[Sequence[Any]], chosen: Sequence[tuple[str, int]], id_place: int | None
) -> Iterator[RawReport]:
    sections = [section_of(name) or name for name, _ in chosen]
    by_section = 1 < len(sections) == len(set(sections)) and set(sections) <= set(PARTS)
    for number, row in enumerate(rows):
        name = str(number) if id_place is None else _text(row[id_place])
        texts = [_text(row[place]) for _, place in chosen]
        if by_section:
            yield RawReport(name, None, sections=dict(zip(sections, texts, strict=True)))
        else:
            yield RawReport(name, None, text="\n\n".join(text for text in texts if text))


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
    if set(text_columns) & set(names) or any(map(is_text_name, names)):
        return False
    return any(map(is_sentence, names)) or (len(names) == 1 and states_something(names))


def separator_of(path: Path) -> str:
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


def is_text_name(column: str) -> bool:
    return _plain(column) in WHOLE or section_of(column) is not None


def section_of(column: str) -> str | None:
    """The section that a column of this name holds."""
    return next((section for section, names in PARTS.items() if _plain(column) in names), None)


def _text_columns(path: Path, columns: list[str]) -> list[str]:
    """The one column of reports, or one each of findings and impression; else an InputError."""
    if len(columns) == 1:
        return columns
    full = [column for column in columns if _plain(column) in WHOLE]
    parted = [column for section in PARTS for column in columns if section_of(column) == section]
    if len(full) + len(parted) != 1 and (
        full or len(parted) != 2 or len(set(map(section_of, parted))) == 1
    ):
        raise InputError(
            f"{path}: {len(full) + len(parted)} columns look like the report's text; name it with "
            f"--text-column (again for each of several); found {_quoted(columns)}"
        )
    return full or parted
