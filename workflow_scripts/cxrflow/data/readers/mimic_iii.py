"""MIMIC-III clinical notes: ``NOTEEVENTS.csv`` or ``.csv.gz`` → documents.

Texts run over several lines inside quotes, so the file goes through a CSV parser as a stream.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from cxr_files.archives import TooLarge, unpacked
from cxr_files.csv_table import require_file
from cxr_files.csv_text import LONGEST_FIELD
from cxr_files.drops import Tally
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.text.documents import DocumentWriter
from cxrflow.text.settings import CorpusSettings

LISTS = layout("mimic_iii").lists["documents"]  # in either case
_BRACKETS = re.compile(r"\[\*\*.*?\*\*\]", re.DOTALL)
# The mark that MIMIC-CXR uses, so that invented names and dates are not learnt.
_REPLACEMENT = "___"
_BLANK = 100_000  # lines at a stretch that no table has
_COLUMNS = ("ROW_ID", "ISERROR", "TEXT")


def _rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of the CSV; damage becomes one InputError that names the line."""
    csv.field_size_limit(LONGEST_FIELD)
    line = blank = 0
    try:
        with io.TextIOWrapper(unpacked(path), encoding="utf-8", newline="") as stream:
            # A line at a time and no longer than a field: a packed line may unpack to gigabytes.
            lines = iter(lambda: stream.readline(LONGEST_FIELD), "")
            reader = csv.reader(lines, strict=True)
            for row in reader:
                line = reader.line_num
                blank = 0 if row else blank + 1
                if blank > _BLANK:
                    raise InputError(f"{path}: {_BLANK} blank lines up to line {line}")
                if row:
                    yield row
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 after line {line} ({error.reason})") from None
    except TooLarge as error:
        raise InputError(f"{path}: {error}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not a whole gzip file after line {line} ({error})") from None
    except csv.Error as error:
        raise InputError(f"{path}: not whole CSV after line {line} ({error})") from None


def read_notes(
    root: Path, settings: CorpusSettings, writer: DocumentWriter, threads: int = 1
) -> list[Tally]:
    """Write each note that is not marked as an error as a document.

    There is one file, so ``threads`` has no effect.
    """
    path = require_file(root, *LISTS["notes"])
    rows = _rows(path)
    header = [name.strip().lstrip("\ufeff").upper() for name in next(rows, [])]
    for column in _COLUMNS:
        if column not in header:
            raise InputError(f"{path}: column '{column}' is missing")
    place = [header.index(column) for column in _COLUMNS]
    tally = Tally("take notes", "notes")
    row_ids: set[int] = set()
    for total, row in enumerate(rows, start=1):
        complete = len(row) == len(header)
        row_id, is_error, text = (row[index].strip() if complete else "" for index in place)
        if not (row_id.isascii() and row_id.isdigit() and len(row_id) <= 18):
            tally.drop("malformed row", [f"row {total}"], failed=True)
            continue
        reason = None
        if is_error not in ("", "0"):
            reason = "marked as error (ISERROR)"
        elif int(row_id) in row_ids:
            reason = "ROW_ID there before"
        else:
            text = _BRACKETS.sub(_REPLACEMENT, text).strip()
            reason = None if text else "no text"
        row_ids.add(int(row_id))
        if reason is None:
            writer.add(row_id, text)
            tally.kept += 1
        else:
            tally.drop(reason, [row_id])
    tally.require_few(path, settings.max_failed_share)
    return [tally]
