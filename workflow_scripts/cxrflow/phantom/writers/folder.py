"""What all writers share: an output folder that is finished or not, and work in parallel.

A finished folder holds ``MANIFEST.json``, written last. A half-written one is started afresh.
"""

import csv
import gzip
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cxrflow.files import fingerprint, naming, read_json, write_json
from cxrflow.outputs import claim_folder, empty_folder
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.progress import progress

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("cxrflow")
MANIFEST = "MANIFEST.json"
#: What no published data set says, for what a benchmark may compare with; no stage reads it.
TRUTH = "TRUTH.parquet"
#: Part of every fingerprint: raised when the same settings come to mean other bytes.
GENERATION = 3

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def write_dataset(
    dataset: str,
    settings: HospitalSettings,
    output: str | Path,
    build: Callable[[Path], dict[str, int]],
    *,
    options: dict[str, Any] | None = None,
) -> bool:
    """Fill ``output`` by ``build``, which returns the counts for the manifest.

    ``options`` are what the data set depends on besides ``settings``. Nothing is done, and False
    returned, when the folder is finished with the same settings.

    Raises:
        InputError: ``output`` is not empty and no earlier run wrote it.
    """
    output = Path(output)
    values = settings.model_dump(mode="json") | (options or {})
    mark = fingerprint({"dataset": dataset, "generation": GENERATION, "settings": values})
    manifest = output / MANIFEST
    if manifest.is_file() and read_json(manifest).get("fingerprint") == mark:
        log.info("%s: %s is there already, nothing to do", dataset, output)
        return False
    claim_folder(output, f"synthetic {dataset}")
    manifest.unlink(missing_ok=True)
    with naming(output):
        empty_folder(output)
        counts = build(output)
        write_json(
            manifest,
            {
                "dataset": dataset,
                "synthetic": True,
                "fingerprint": mark,
                "counts": counts,
                "settings": values,
            },
        )
    log.info("%s: %s", dataset, ", ".join(f"{count} {name}" for name, count in counts.items()))
    return True


def each(
    function: Callable[[ItemT], ResultT], items: Sequence[ItemT], threads: int, label: str
) -> Iterator[ResultT]:
    """``map`` over processes, in the order of ``items``, with progress on stderr."""
    if threads <= 1 or len(items) < 2:
        yield from progress(map(function, items), len(items), "case", _one, label)
        return
    chunk = max(1, min(16, len(items) // (4 * threads)))
    with ProcessPoolExecutor(threads) as pool:
        results = pool.map(function, items, chunksize=chunk)
        yield from progress(results, len(items), "case", _one, label)


def _one(_: object) -> int:
    return 1


def write_gzip(path: Path, data: bytes) -> None:
    """Compress without a time stamp, so that equal data are equal bytes."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.write(data)


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A CSV with header; None is blank; quoted only where needed; gzipped where named .gz."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    data = text.getvalue().encode()
    if path.suffix == ".gz":
        write_gzip(path, data)
    else:
        path.write_bytes(data)


def write_truth(folder: Path, rows: "pd.DataFrame") -> None:
    """The truth behind a data set, beside its files."""
    rows.to_parquet(folder / TRUTH, index=False)
