"""Tables of text as they are written, plain or gzipped, row by row; pandas is not needed.

Names of columns that read like a report are not shown.
"""

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TextIO

from cxr_files.archives import TooLarge, unpacked
from cxr_files.errors import InputError
from cxr_files.reading import UTF8, encoding_of

LONGEST_FIELD = 2**24  # characters
START = 8  # bytes in which the encoding shows
# Not "Acc. No.": a word of some length stands before the full stop.
SENTENCE = re.compile(r"\w{4}[.!?](?:\W*$|\s+[A-Z])|\n")
MOST_WORDS = 6  # of a column's name
EMPTY = "the file is empty; expected a CSV with a header"
# A last line, of which an open quote makes a part of its field.
END = "\0end of the table"
SEPARATOR_LINE = re.compile(r"\W?sep=.[\r\n]", re.IGNORECASE)  # which Excel puts before a header


def column_names(path: Path, separator: str = ",") -> list[str]:
    """Return the names of a table's columns; as pandas does, those without one get one.

    Raises:
        InputError: as :func:`text_rows`, or there is no row.
    """
    for _, first in text_rows(path, separator):
        return unique_names([name or f"Unnamed: {n}" for n, name in enumerate(first)])
    raise InputError(f"{path}: {EMPTY}")


def text_rows(path: Path, separator: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table, the header's too, with the line that each begins in.

    Blank lines are no rows.

    Raises:
        InputError: the file is cut off, not UTF-8, or a quote in it is not closed.
    """
    csv.field_size_limit(LONGEST_FIELD)
    with (
        unpacked_table(path) as (handle, encoding),
        io.TextIOWrapper(handle, encoding=encoding, newline="") as text,
    ):
        reader = csv.reader(chain(text, [END]), delimiter=separator)
        start = 1
        try:
            for row in reader:
                if row == [END]:
                    return
                if row and row[-1].endswith(END):
                    raise csv.Error("unexpected end of the file")
                if len(row) > 1 or (row and not row[0].isspace()):
                    yield start, row
                start = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{path}:{start}: {error}; expected closed quotes") from None


@contextmanager
def unpacked_table(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Open a table, and say in which encoding; errors on the way name the file."""
    encoding = UTF8
    try:
        with unpacked(path) as handle:
            encoding = _encoding(handle, path)
            start = handle.peek(START)[: 8 * START].decode(encoding, "ignore")  # type: ignore[attr-defined]
            if SEPARATOR_LINE.match(start):
                line = f"'{start.split()[0]}', which Excel reads as the separator"
                raise InputError(f"{path}:1: is {line}; expected a header: delete that line")
            yield handle, encoding
    except UnicodeDecodeError as error:
        if encoding != UTF8:
            raise InputError(
                f"{path}: begins with the mark of {encoding.upper()}, but is not ({error.reason})"
            ) from None
        raise InputError(
            f"{path}: not UTF-8 (byte 0x{error.object[error.start]:02x} cannot be read); "
            "expected the file as published, or your own converted: iconv -f WINDOWS-1252 -t UTF-8"
        ) from None
    except TooLarge as error:
        raise InputError(f"{path}: {error}; expected the file as published") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: cut off or not gzip ({error}); fetch it again") from None


def _encoding(handle: IO[bytes], path: Path) -> str:
    """Return the encoding of an open text; InputError if it is UTF-16 without a mark."""
    start = handle.peek(START)[:START]  # type: ignore[attr-defined]
    encoding = encoding_of(start)
    if encoding == UTF8 and bytes(START // 2) in (start[::2], start[1::2]):
        raise InputError(
            f"{path}: every second byte is NUL, as in UTF-16 that has lost its byte-order mark; "
            "expected UTF-8: iconv -f UTF-16LE -t UTF-8"
        )
    return encoding


@contextmanager
def open_table(path: Path) -> Iterator[TextIO]:
    """Open a text, plain or gzipped, in the encoding of its mark; line ends as they are."""
    with unpacked(path) as handle:
        encoding = _encoding(handle, path)
        with io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
            yield text


def is_sentence(name: str) -> bool:
    """True if a column's name reads like a report's text: a table without a header."""
    return bool(SENTENCE.search(name.strip())) or len(name.split()) > MOST_WORDS


def shown(name: str) -> str:
    """Return a column's name as an error shows it; nothing of a report's text."""
    return f"(a text of {len(name)} characters)" if is_sentence(name) else name


def unique_names(header: Sequence[str]) -> list[str]:
    """Number repeated names of columns, as pandas does."""
    counts: Counter[str] = Counter()
    names = []
    for name in header:
        names.append(f"{name}.{counts[name]}" if counts[name] else name)
        counts[name] += 1
    return names
