"""Tables too long for memory: a CSV or Parquet file that is written while its rows come in."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cxr_files.atomic import atomic_path
from cxr_files.formulas import inert_text

#: Rows in memory, and in a row group of a Parquet file, however they come.
ROWS = 2**14


class RowFile:
    """Appends rows to a new file; ``types`` are those of its columns.

    In a CSV no text is a formula of a spreadsheet (:func:`.inert_text`). A CSV needs no pandas.
    """

    def __init__(self, path: Path, types: Mapping[str, str], parquet: bool) -> None:
        self._types, self._rows = dict(types), list[tuple[Any, ...]]()
        self.files = ExitStack()
        if parquet:
            import pandas as pd
            import pyarrow as pa

            from cxr_files.parquet import parquet_writer

            def table(rows: Sequence[tuple[Any, ...]], schema: Any = None) -> Any:
                frame = pd.DataFrame(rows, columns=list(types)).astype(self._types)
                return pa.Table.from_pandas(frame, schema, preserve_index=False)

            schema = table([]).schema
            writer = self.files.enter_context(parquet_writer(path, schema))
            self._write = lambda rows: writer.write_table(table(rows, schema))
        else:
            file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115 closed at the end
            self.files.enter_context(file)
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(types)
            self._write = lambda rows: lines.writerows(map(self._cells, rows))

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Append rows; they are written when there are enough of them."""
        self._rows += rows
        while len(self._rows) >= ROWS:
            self._write(self._rows[:ROWS])
            del self._rows[:ROWS]

    def finish(self) -> None:
        """Write the last rows."""
        if self._rows:
            self._write(self._rows)

    def _cells(self, row: Sequence[Any]) -> list[Any]:
        texts = (inert_text(value) if isinstance(value, str) else value for value in row)
        return ["" if value != value else value for value in texts]  # NaN is blank, as None is


@contextmanager
def row_file(path: Path, types: Mapping[str, str]) -> Iterator[RowFile]:
    """Open a file that appears, whole, at the end; its format is that of its name."""
    with atomic_path(path) as temporary:
        rows = RowFile(temporary, types, path.suffix == ".parquet")
        with rows.files:  # else Arrow would close its own later, and print why it cannot
            yield rows
            rows.finish()
