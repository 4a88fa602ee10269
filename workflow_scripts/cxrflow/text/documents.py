"""documents.parquet: one row a document (``document_id``, ``text``), read and written in pieces.

Files may be far larger than memory (18.6 GB of text in BioViL section 2.1): rows are written as
row groups of bounded size and read back one row group, or part of one, at a time.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cxr_files.atomic import require_unchanged
from cxr_files.errors import InputError, one_line
from cxr_files.parquet import DAMAGE, parquet_writer
from cxr_labels.characters import normalised

SCHEMA = pa.schema([("document_id", pa.string()), ("text", pa.string())])
_GROUP_BYTES = 16 * 2**20  # text of one row group
_GROUP_ROWS = 16_384


class DocumentWriter:
    """Write documents as they come, characters in normal form; holds one row group in memory."""

    def __init__(self, path: Path) -> None:
        self._open = ExitStack()
        self._writer = self._open.enter_context(parquet_writer(path, SCHEMA, compression="zstd"))
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._bytes = 0
        self.documents = 0
        self.characters = 0

    def add(self, document_id: str, text: str) -> None:
        text = normalised(text)
        self._ids.append(document_id)
        self._texts.append(text)
        self._bytes += len(text)
        self.documents += 1
        self.characters += len(text)
        if self._bytes >= _GROUP_BYTES or len(self._ids) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._ids:
            self._writer.write_table(pa.table([self._ids, self._texts], schema=SCHEMA))
        self._ids, self._texts, self._bytes = [], [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        with self._open:
            if kind is None:
                self._flush()


def open_documents(path: str | Path) -> pq.ParquetFile:
    """Open a documents file and check its columns."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: file not found")
    try:
        file = pq.ParquetFile(path, memory_map=True)
        schema = file.schema_arrow
    except DAMAGE as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from None
    for column in ("document_id", "text"):
        if column not in schema.names:
            raise InputError(f"{path}: column '{column}' is missing")
        kind = schema.field(column).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"{path}: column '{column}' holds {kind}, expected text")
    return file


def training_texts(path: str | Path, rows: int) -> Iterator[list[str]]:
    """Texts of a file in lists of up to ``rows``; null texts become "".

    Where the file has a split column, only rows of split "train".
    """
    require_unchanged(Path(path))
    file = open_documents(path)
    has_splits = "split" in file.schema_arrow.names
    columns = ["text", "split"] if has_splits else ["text"]
    for group in range(file.num_row_groups):
        try:
            for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=columns):
                if has_splits:
                    batch = batch.filter(pc.equal(batch.column("split"), "train"))
                yield [text or "" for text in batch.column("text").to_pylist()]
        except DAMAGE as error:
            reason = one_line(error)
            raise InputError(f"{path}: row group {group} cannot be read ({reason})") from None
