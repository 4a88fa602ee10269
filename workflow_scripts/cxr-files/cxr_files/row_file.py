"""Tables too long for memory: a CSV or Parquet file that is written while its rows come in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from cxr_files.atomic import atomic_path
from cxr_files.formulas import inert

#: Rows in memory, and in a row group of a Parquet file, however they come.
ROWS = 2**14


class RowFile:
    """Appends rows to a new file; ``types`` are those of its columns.

    Texts of the first column are no formulas of a spreadsheet (:func:`.inert`) in a CSV.
    """

    def __init__(self, path: Path, types: Mapping[str, str], parquet: bool) -> None:
        self._path, self._types = path, dict(types)
        self._rows: list[tuple[Any, ...]] = []
        self._writer: ParquetWriter | None = None
        if parquet:
            schema = pa.Table.from_pandas(self._frame(), preserve_index=False).schema
            self._writer = ParquetWriter(path, schema)
        else:
            self._frame().to_csv(path, index=False)

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Append rows; they are written when there are enough of them."""
        self._rows += rows
        while len(self._rows) >= ROWS:
            self._write(self._rows[:ROWS])
            del self._rows[:ROWS]

    def close(self) -> None:
        """Write the last rows."""
        if self._rows:
            self._write(self._rows)
        if self._writer is not None:
            self._writer.close()

    def _write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        frame = self._frame(rows)
        if self._writer is not None:
            schema = self._writer.schema
            self._writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
        else:
            name = frame.columns[0]
            frame = frame.assign(**{name: inert(frame[name])})
            frame.to_csv(self._path, mode="a", header=False, index=False)

    def _frame(self, rows: Sequence[tuple[Any, ...]] = ()) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=list(self._types)).astype(self._types)


@contextmanager
def row_file(path: Path, types: Mapping[str, str]) -> Iterator[RowFile]:
    """Open a file that appears, whole, at the end; its format is that of its name."""
    with atomic_path(path) as temporary:
        rows = RowFile(temporary, types, path.suffix == ".parquet")
        yield rows
        rows.close()
