"""Where ``cxrflow.reports.label`` finds reports: a table, a folder of texts, a known data set.

A source lists its reports without holding their texts. A table's rows come with their text,
batch by batch; files and archives are listed as references, which each process reads for itself.
"""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from cxrflow.errors import InputError
from cxrflow.reports.texts import (
    MIMIC_ARCHIVE,
    OPEN_I_ARCHIVE,
    RawReport,
    Reader,
    Reference,
    decode,
    list_reports,
    open_reader,
)

# Names of a text column, in lower case; more than one of them in a table is not obvious.
TEXT_COLUMNS = frozenset(
    ("report", "reports", "report text", "report impression", "text", "impression")
)
ARCHIVES = {MIMIC_ARCHIVE: "mimic_cxr", OPEN_I_ARCHIVE: "open_i"}
DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
BATCH_ROWS = 2_000
# Reports are refused one by one by their length; this is for files that are no tables.
LONGEST_FIELD = 2**30

Item = RawReport | Reference


@dataclass(frozen=True)
class Source:
    """Reports to label: ``kind`` is "table", "files" or a layout; ``total`` counts them."""

    kind: str
    root: Path
    id_name: str
    total: int
    items: Callable[[], Iterator[Item]]


@dataclass(frozen=True)
class Table:
    """A CSV, TSV or Parquet file, read batch by batch; ``header`` False for a bare CSV."""

    path: Path
    header: bool = True

    @property
    def _suffix(self) -> str:
        return "".join(self.path.suffixes[-2:] if self.path.suffix == ".gz" else [self.path.suffix])

    def columns(self) -> list[str]:
        """The names of all columns; ``0``, ``1`` … without a header."""
        with self._naming():
            if self._suffix == ".parquet":
                return list(pq.read_schema(self.path).names)
            first = next(self._rows(), None)
        if first is None:
            raise InputError(f"{self.path}: holds no row")
        return first if self.header else [str(number) for number in range(len(first))]

    def batches(self, columns: Sequence[str]) -> Iterator[list[list[str | None]]]:
        """These columns as text, some thousand rows at a time."""
        with self._naming():
            if self._suffix == ".parquet":
                yield from self._parquet_batches(list(columns))
            else:
                yield from self._csv_batches(columns)

    def _parquet_batches(self, columns: list[str]) -> Iterator[list[list[str | None]]]:
        with pq.ParquetFile(self.path) as parquet:
            for batch in parquet.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                yield [batch.column(name).cast(pa.string()).to_pylist() for name in columns]

    def _csv_batches(self, columns: Sequence[str]) -> Iterator[list[list[str | None]]]:
        names = self.columns()
        places = [names.index(column) for column in columns]
        rows = self._rows()
        if self.header:
            next(rows)
        while batch := list(islice(rows, BATCH_ROWS)):
            yield [[row[place] for row in batch] for place in places]

    def _rows(self) -> Iterator[list[str]]:
        """All rows, the header's too; empty lines are none. Arrow's reader loses a line's end
        inside a text that goes over two of its blocks, Python's does not."""
        with self._open() as handle:
            csv.field_size_limit(LONGEST_FIELD)
            rows = csv.reader(handle, delimiter=DELIMITERS[self._suffix], strict=True)
            width = None
            for row in rows:
                if width is None:
                    width = len(row) or None
                if row and len(row) != width:
                    raise InputError(
                        f"{self.path}: line {rows.line_num}: {len(row)} fields, expected {width} "
                        "as in the first row (a text that holds the delimiter needs quotes)"
                    )
                if row:
                    yield row

    def _open(self) -> TextIO:
        if self.path.suffix == ".gz":
            return io.TextIOWrapper(gzip.open(self.path), encoding="utf-8-sig", newline="")
        return open(self.path, encoding="utf-8-sig", newline="")

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """What a library has against the file, as one line that names it."""
        try:
            yield
        except (OSError, EOFError, zlib.error, UnicodeError, csv.Error, pa.ArrowException) as error:
            kind = "Parquet" if self._suffix == ".parquet" else "CSV in UTF-8"
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{self.path}: cannot be read as {kind} ({reason})") from None

    def check_text(self, column: str) -> None:
        """Refuse a Parquet column that holds no text; a CSV's columns are all text."""
        if self._suffix != ".parquet":
            return
        kind = pq.read_schema(self.path).field(column).type
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if str(value) not in ("string", "large_string", "string_view", "null"):
            raise InputError(f"{self.path}: column '{column}' holds {kind}, expected text")


def find_source(
    path: str | Path,
    layout: str | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
    header: bool = True,
) -> Source:
    """The source at ``path``; the other arguments are those of the command line.

    Raises:
        InputError: nothing there, not readable, no or several text columns, or an id repeated.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: not found")
    if path.is_file() and path.name in ARCHIVES:
        layout, path = layout or ARCHIVES[path.name], path.parent
    if path.is_file():
        if layout is not None:
            raise InputError(f"{path}: --layout {layout} needs the data set's folder or archive")
        return _table(Table(path, header), text_column, id_column)
    if text_column or id_column or not header:
        raise InputError(
            f"{path}: --text-column, --id-column and --no-header are for tables, "
            "and this is no table"
        )
    if layout is None:
        return _text_files(path)
    references = list_reports(layout, path).references
    _once((reference.study_id for reference in references), path)
    return Source(layout, path, "study_id", len(references), lambda: iter(references))


def _table(table: Table, text_column: str | None, id_column: str | None) -> Source:
    path = table.path
    if not path.name.endswith((*DELIMITERS, ".parquet")):
        raise InputError(
            f"{path}: expected a folder, {', '.join(ARCHIVES)}, or a table whose name ends in "
            f"{', '.join(DELIMITERS)} or .parquet"
        )
    columns = table.columns()
    if not table.header and (len(columns) != 1 or text_column or id_column):
        raise InputError(
            f"{path}: --no-header needs one column and no column names; found {len(columns)} "
            "columns (a text that holds commas needs quotes)"
        )
    text = _text_column(path, columns, text_column)
    if id_column is not None and columns.count(id_column) != 1:
        raise _no_column(path, id_column, columns)
    table.check_text(text)
    chosen = [text] if id_column is None else [text, id_column]
    total = 0

    def ids() -> Iterator[str | None]:
        nonlocal total
        for batch in table.batches(chosen):
            total += len(batch[0])
            yield from batch[1] if id_column else ()

    # The whole file is gone through once before hours of work may begin on it.
    _once(ids(), path)
    if not total:
        raise InputError(f"{path}: holds no row")

    def items() -> Iterator[Item]:
        row = 0
        for texts, *given in table.batches(chosen):
            names = given[0] if given else map(str, range(row, row + len(texts)))
            row += len(texts)
            for name, value in zip(names, texts, strict=True):
                yield RawReport(name or "", None, text=value or "")

    return Source("table", path, id_column or "row", total, items)


def _no_column(path: Path, name: str, columns: Sequence[str]) -> InputError:
    found = ", ".join(f"'{column}'" for column in columns)
    return InputError(f"{path}: expected one column '{name}'; found {found}")


def _text_column(path: Path, columns: Sequence[str], wished: str | None) -> str:
    if wished is not None:
        if columns.count(wished) != 1:
            raise _no_column(path, wished, columns)
        return wished
    named = [c for c in columns if c.strip().lower().replace("_", " ") in TEXT_COLUMNS]
    candidates = columns if len(columns) == 1 else named
    if len(candidates) != 1:
        found = ", ".join(f"'{column}'" for column in columns)
        raise InputError(
            f"{path}: {len(candidates)} columns look like the report's text; name it with "
            f"--text-column (or --no-header when the first row is a report); found {found}"
        )
    return candidates[0]


def _once(ids: Iterator[str | None], path: Path) -> None:
    seen: set[str] = set()
    for number, name in enumerate(ids):
        if name is None or not name.strip():
            raise InputError(f"{path}: row {number} has no id")
        if name in seen:
            raise InputError(f"{path}: row {number}: id '{name}' is given twice")
        seen.add(name)


def _text_files(root: Path) -> Source:
    """Every ``.txt`` below a folder, in the order of their paths."""
    places = sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".txt")
    )
    if not places:
        raise InputError(f"{root}: no .txt file below it; a data set's folder needs --layout")

    def items() -> Iterator[Item]:
        for place in places:
            # A name that is no UTF-8 can be opened, but not written.
            yield Reference(place.encode("utf-8", "backslashreplace").decode(), None, place)

    return Source("files", root, "path", len(places), items)


class _TextFiles:
    """Reads the files of a folder by their relative paths."""

    def __init__(self, root: Path):
        self._root = root

    def read(self, reference: Reference) -> RawReport:
        """The file's text, or why it cannot be had."""
        name = reference.study_id
        try:
            content = (self._root / reference.place).read_bytes()
        except OSError:
            return RawReport(name, None, failure="file cannot be read")
        text, failure = decode(content)
        return RawReport(name, None, text=text, failure=failure)


def open_items(kind: str, root: Path) -> Reader | None:
    """What reads a source's references; None for a table, whose items need no reading."""
    if kind == "table":
        return None
    return _TextFiles(root) if kind == "files" else open_reader(kind, root)
