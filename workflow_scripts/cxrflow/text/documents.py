"""documents.parquet: one row a document (``document_id``, ``text``), read and written in pieces.

Files may be far larger than memory (18.6 GB of text in BioViL section 2.1): rows are written as
row groups of bounded size and read back one row group, or part of one, at a time.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from cxr_files.errors import InputError, one_line
from cxr_files.parquet import DAMAGE
from cxr_labels.characters import normalised

SCHEMA = pa.schema([("document_id", pa.string()), ("text", pa.string())])
_GROUP_BYTES = 16 * 2**20  # text of one row group
_GROUP_ROWS = 16_384


class DocumentWriter:
    """Write documents as they come, characters in normal form; holds one row group in memory."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._bytes = 0
        self.documents = 0
        self.characters = 0

    def add(self, document_id: str, text: str) -> None:
        """Append one document."""
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
        if kind is None:
            self._flush()
        self._writer.close()


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


def read_group(path: str | Path, group: int, rows: int, split: str | None) -> Iterator[list[str]]:
    """Texts of one row group in lists of up to ``rows``; null texts become "".

    With ``split``, and where the file has a split column, only rows of that split.
    """
    file = open_documents(path)
    filtered = split is not None and "split" in file.schema_arrow.names
    columns = ["text", "split"] if filtered else ["text"]
    batches = file.iter_batches(batch_size=rows, row_groups=[group], columns=columns)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            texts = batch.column("text").to_pylist()
            splits = batch.column("split").to_pylist() if filtered else ()
        except DAMAGE as error:
            raise InputError(
                f"{path}: row group {group} cannot be read ({one_line(error)})"
            ) from None
        if filtered:
            texts = [text for text, name in zip(texts, splits, strict=True) if name == split]
        yield [text or "" for text in texts]
