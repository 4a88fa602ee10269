"""Parquet tables: read with errors of one line that name the file, and written piece by piece."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cxr_files.atomic import require_unchanged
from cxr_files.errors import InputError, one_line
from cxr_files.reading import require_regular

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 10_000  # rows in memory
#: What Arrow and pandas raise of damaged files.
DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, RuntimeError)


@contextmanager
def _naming_damage(path: str | Path) -> Iterator[None]:
    """Turn what is raised of a damaged file into an InputError that names it."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from None


def read_table(path: str | Path, columns: Sequence[str] = ()) -> "pd.DataFrame":
    """Read a Parquet file that must have ``columns``; it may have more.

    Raises:
        InputError: the file is absent or damaged, or lacks a column, or is a product whose content
            is another than when it was written.
    """
    import pandas as pd  # not needed by all who ask what damage is

    if not Path(path).is_file():
        raise InputError(f"{path}: file not found")
    require_unchanged(Path(path))
    with _naming_damage(path):
        table = pd.read_parquet(path)
        texts: pd.DataFrame = table.select_dtypes("str")
        for name in texts:
            pa.array(texts[name]).validate(full=True)  # UTF-8, which is else read when it is used
    for name in columns:
        if name not in table:
            names = ", ".join(map(str, table.columns)) or "none"
            raise InputError(f"{path}: column '{name}' is missing; found {names}")
    return table


def table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of columns of a Parquet file, some thousand rows in memory at a time.

    Raises:
        InputError: as :func:`read_table`.
    """
    require_unchanged(path)
    with _naming_damage(path), pq.ParquetFile(require_regular(path)) as file:
        for batch in file.iter_batches(CHUNK, columns=list(columns)):
            batch.validate(full=True)  # UTF-8, which is else read when it is used
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def table_columns(path: Path) -> dict[str, str]:
    """Return Arrow's type of each column of a Parquet file; an index without a name is none.

    Raises:
        InputError: as :func:`read_table`.
    """
    with _naming_damage(path):
        schema = pq.read_schema(require_regular(path))
        names = [name for name in schema.names if not name.startswith("__index_level_")]
        return {name: str(schema.field(name).type) for name in names}


@contextmanager
def parquet_writer(path: Path, schema: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
    """Write a Parquet file piece by piece; it is closed in any case.

    Arrow's own writer leaves a file open that it cannot finish, as on a full disk.
    """
    with pa.OSFile(str(path), "wb") as file, pq.ParquetWriter(file, schema, **options) as writer:
        yield writer
