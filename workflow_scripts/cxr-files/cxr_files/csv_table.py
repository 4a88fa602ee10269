"""CSV lists as published: plain or gzipped, checked by column.

Damaged rows are counted and left out.
"""

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cxr_files.csv_text import (
    EMPTY,
    LONGEST_FIELD,
    open_table,
    shown,
    unique_names,
    unpacked_table,
)
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.reading import UTF8, leads_out

if TYPE_CHECKING:
    import pandas as pd

# id: text that must be there; bare: the same without a folder's letter (:func:`bare_ids`); path:
# the same, below the list's folder; text: text or blank; number: a number or blank; value: a number
# that must be there.
Kind = Literal["id", "bare", "path", "text", "number", "value"]
UNEVEN = "uneven"  # attribute of a table: first fields of rows with another number of fields


def find_file(root: Path, *names: str) -> Path | None:
    """Return the first of ``names``, patterns with or without ``.gz``, that is in ``root``."""
    for name in (edition for plain in names for edition in (plain, f"{plain}.gz")):
        for path in sorted(root.glob(name)) if "*" in name else [root / name]:
            if path.is_file():
                return path
    return None


def require_root(root: Path) -> Path:
    """Return ``root`` if it is a folder, else raise InputError."""
    if not root.is_dir():
        raise InputError(f"{root}: data root not found; expected a folder")
    return root


def require_file(root: Path, *names: str) -> Path:
    """Return what :func:`find_file` finds, else raise InputError."""
    path = find_file(require_root(root), *names)
    if path is None:
        raise InputError(f"{root}: {' or '.join(names)} not found (plain or .gz)")
    return path


def read_csv(
    path: Path,
    columns: Mapping[str, Kind],
    optional: Mapping[str, Kind] | None = None,
    separator: str = ",",
    together: Sequence[str] = (),
) -> "tuple[pd.DataFrame, list[Drop]]":
    """Read the named columns of a CSV file.

    Args:
        path: ``.csv`` or ``.csv.gz``, with a header row; UTF-8, or marked as UTF-16 or UTF-32.
        columns: columns that must be there, and what they hold.
        optional: columns that may be there; absent ones come back as nulls.
        separator: of the fields; a tab in some tables.
        together: columns of an id. Rows with the same values there, as the boxes of one region, go
            together: where one is damaged, all are left out. Where a part of its id is blank, it
            may belong to any that have the rest. Of a row with another number of fields only the
            first is known to stand in its column, so all rows with that go.

    Returns:
        The frame (ids and text as str, numbers as float64) and the damaged rows, counted by
        reason with file and row as examples (the header is row 1).

    Raises:
        InputError: the file is empty, cut off, not UTF-8, or lacks a column.
    """
    import pandas as pd

    kinds = {**columns, **(optional or {})}
    frame, damaged = read_text(path, separator)
    frame.columns = _spelled([str(name).strip() for name in frame.columns], list(kinds), path)
    for name in columns:
        if name not in frame:
            raise InputError(
                f"{path}: column '{name}' is missing; expected {', '.join(columns)}, "
                f"found {', '.join(map(shown, frame.columns))}"
            )
    lines = pd.Series(frame.index, index=frame.index)
    # A row is counted once, for its first bad column.
    good = pd.Series(True, index=frame.index)
    values: dict[str, pd.Series] = {}
    for name, kind in kinds.items():
        if name not in frame:
            values[name] = pd.Series(
                index=frame.index, dtype="float64" if kind in ("number", "value") else "str"
            )
            continue
        text = frame[name]
        if kind == "text":
            values[name] = text
            continue
        if kind in ("id", "bare", "path"):
            values[name] = bare_ids(text.str.strip()) if kind == "bare" else text.str.strip()
            bad = values[name].isna() | (values[name] == "")
            reason = f"{path.name}: {name} is blank"
            if kind == "path":
                bad |= values[name].fillna("").map(leads_out).astype("bool")
                reason += ", or no path below its folder"
        else:
            values[name] = pd.to_numeric(text, errors="coerce").astype("float64")
            bad = values[name].isna() & (text.notna() | (kind == "value"))
            reason = f"{path.name}: {name} is not a number"
        bad &= good
        if bad.any():
            damaged.append(Drop.of(reason, (f"{path}:{n}" for n in lines[bad]), failed=True))
            good &= ~bad
    if together:
        keys = pd.DataFrame(values)[[*together]]
        rest = good & _of_one_id(keys, keys[~good])
        if frame.columns[0] in together:
            rest |= good & keys[frame.columns[0]].isin(frame.attrs.get(UNEVEN, []))
        if rest.any():
            reason = f"{path.name}: another row of the same {', '.join(together)} is damaged"
            damaged.append(Drop.of(reason, (f"{path}:{n}" for n in lines[rest]), failed=True))
            good &= ~rest
    return pd.DataFrame(values)[good].reset_index(drop=True), damaged


def _of_one_id(keys: "pd.DataFrame", damaged: "pd.DataFrame") -> "pd.Series":
    """True for rows whose id may be that of a damaged row, of whose parts some may be blank."""
    import pandas as pd

    alike = pd.Series(False, index=keys.index)
    known = damaged.notna() & (damaged != "")
    for _, blanks in known.groupby(list(known)):
        columns = [name for name in keys if blanks[name].all()]
        if columns:
            ids = pd.MultiIndex.from_frame(damaged.loc[blanks.index, columns])
            alike |= pd.MultiIndex.from_frame(keys[columns]).isin(ids)
    return alike


def _spelled(header: list[str], columns: Sequence[str], path: Path) -> list[str]:
    """The header with each of the ``columns`` in its own spelling.

    Editions of one data set write ``Patientid`` and ``patientid``, ``clinical notes`` and
    ``clinical_notes``. A column that stands there as it is spelt is itself.

    Raises:
        InputError: two columns are spelt almost like one that is read.
    """
    by_letters = {_letters(name): name for name in columns if name not in header}
    spelled = [by_letters.get(_letters(name), name) for name in header]
    for name in by_letters.values():
        alike = [header[n] for n, column in enumerate(spelled) if column == name]
        if len(alike) > 1:
            raise InputError(f"{path}: columns {alike} could all be '{name}'; expected one of them")
    return spelled


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


def read_text(
    path: Path, separator: str = ",", header: bool = True
) -> "tuple[pd.DataFrame, list[Drop]]":
    """Read all columns as text, by line number; leave out and count rows with more fields.

    Rows with fewer are published so (NIH's boxes), and end in blanks. A last row with fewer than
    the one before it was cut off, as on a full disk: it is left out and counted too. Without a
    ``header`` the columns are numbered from 0.

    Raises:
        InputError: as :func:`read_csv`.
    """
    import pandas as pd

    try:
        with _as_text(path, separator, header) as arguments:
            frame = pd.read_csv(**arguments)
        if isinstance(frame.index, pd.RangeIndex):
            frame.index = frame.index + 1 + header
            return _without_cut_off(frame, path, separator)
    except pd.errors.ParserError:
        pass  # rows of unequal length: read again row by row to say which
    with _as_text(path, separator, header):
        return _read_rows(path, separator, header)


def _without_cut_off(
    frame: "pd.DataFrame", path: Path, separator: str
) -> "tuple[pd.DataFrame, list[Drop]]":
    """Leave out and count a last row that has fewer fields than the one before it."""
    if min(frame.shape) < 2 or frame.iloc[-1:, -1].notna().all():
        return frame, []
    csv.field_size_limit(LONGEST_FIELD)
    with open_table(path) as text:  # in which pandas skips lines of blanks
        rows = csv.reader(text, delimiter=separator)
        above, last = deque((r for r in rows if r and not (len(r) == 1 and r[0].isspace())), 2)
    if len(last) >= len(above):
        return frame, []
    reason = f"{path.name}: cut off (its last row has fewer fields than the one before)"
    whole = frame[:-1]
    whole.attrs[UNEVEN] = [last[0].strip()]
    return whole, [Drop.of(reason, [f"{path}:{frame.index[-1]}"], failed=True)]


@contextmanager
def _as_text(path: Path, separator: str, header: bool) -> Iterator[dict[str, Any]]:
    """Arguments by which pandas reads all columns as text; errors on the way name the file."""
    import pandas as pd

    try:
        with unpacked_table(path) as (handle, encoding):
            yield {
                "filepath_or_buffer": handle,
                "sep": separator,
                "dtype": "str",
                # Blank alone means missing: a phrase or a class may well be called "None" or "NA".
                **{"keep_default_na": False, "na_values": [""]},
                "encoding": None if encoding == UTF8 else encoding,
                "header": 0 if header else None,
            }
    except pd.errors.EmptyDataError:
        raise InputError(f"{path}: {EMPTY}") from None


def _read_rows(path: Path, separator: str, header: bool) -> "tuple[pd.DataFrame, list[Drop]]":
    import pandas as pd

    csv.field_size_limit(LONGEST_FIELD)
    rows: list[Sequence[str]] = []
    lines: list[int] = []
    wrong: list[str] = []
    uneven: list[str] = []
    with open_table(path) as handle:
        reader = csv.reader(handle, delimiter=separator, strict=True)
        try:
            first = next(reader, [])
            names = unique_names(first) if header else list(range(len(first)))
            start = reader.line_num + 1
            for row in reader if header else chain([first], reader):
                if len(row) == len(names):
                    rows.append(row)
                    lines.append(start)
                elif row:
                    wrong.append(f"{path}:{start}")
                    uneven.append(row[0].strip())
                start = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{path}:{reader.line_num}: {error}; expected closed quotes") from None
    frame = pd.DataFrame(rows, columns=names, index=lines, dtype="str").replace("", pd.NA)
    frame.attrs[UNEVEN] = uneven
    reason = f"{path.name}: wrong number of fields (expected {len(names)})"
    return frame, [Drop.of(reason, wrong, failed=True)] if wrong else []


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text, UTF-8 or marked, plain or gzipped; InputError for others."""
    with unpacked_table(path) as (handle, encoding):
        return handle.read().decode(encoding).splitlines()


def match_lines(path: Path, pattern: str, reason: str) -> "tuple[pd.DataFrame, Drop]":
    """Return the groups of ``pattern`` in each line that is not blank, by line number.

    Lines in which it finds nothing are left out and counted as damage.
    """
    import pandas as pd

    lines = pd.Series(dict(enumerate(read_lines(path), start=1)), dtype="str").str.strip()
    fields = lines[lines != ""].str.extract(pattern)
    wrong = fields.isna().all(axis=1)
    places = (f"{path}:{number}" for number in fields.index[wrong])
    return fields[~wrong], Drop.of(f"{path.name}: {reason}", places, failed=True)


def bare_ids(values: "pd.Series") -> "pd.Series":
    """Remove the letter of a folder name (``p``, ``s``) or the ``.0`` of a float from ids."""
    return values.str.replace(r"^[ps](?=\d+)", "", regex=True).str.replace(
        r"^(\d+)\.0$", r"\1", regex=True
    )
