"""Common ground of all writers: an output folder, finished or not, and work in parallel.

A finished folder holds ``MANIFEST.json``, written last. A half-written one is started afresh.
"""

import csv
import functools
import gzip
import io
import json
import logging
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cxr_files.atomic import fingerprint, naming, read_json, write_json
from cxr_files.errors import InputError
from cxr_files.outputs import empty_folder, held_folder
from cxr_files.progress import progress
from cxr_hospital.settings import FollowedSettings, HospitalSettings
from cxr_hospital.truth import TABLES

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("cxrflow")
MANIFEST = "MANIFEST.json"
#: Part of every fingerprint: raised when the same settings come to mean other bytes.
GENERATION = 3

ResultT = TypeVar("ResultT")
Row = tuple[object, ...]
Counts = dict[str, int]


def of_followed(settings: HospitalSettings, dataset: str) -> FollowedSettings:
    """The settings of followed patients, without which there is no such data set."""
    if settings.followed is None:
        raise InputError(
            f"{dataset}: key 'followed' of the synthetic hospital is null; expected the patients "
            "of MS-CXR-T, for example {patients: 250}"
        )
    return settings.followed


def dataset_writer(
    *, followed: bool = False, truth: Sequence[str] = (), **defaults: Any
) -> Callable[[Callable[..., Counts]], Callable[..., bool]]:
    """Turn ``write_<dataset>``, which fills a folder, into a writer of a finished data set.

    The decorated function takes the empty folder, the settings, ``threads`` and the options, on
    which the data set depends besides the settings; it returns the counts for the manifest.
    ``followed``: the data set is of MS-CXR-T's patients. ``truth``: tables of the truth that every
    finished folder has. The writer takes settings, output, threads and options; it returns False
    and does nothing if the folder is finished with the same ones.

    Raises:
        InputError: the output is not empty and no earlier run wrote it.
        PassingError: another process writes it.
    """

    def finished(fill: Callable[..., Counts]) -> Callable[..., bool]:
        dataset = fill.__name__.removeprefix("write_")

        @functools.wraps(fill)
        def write(
            settings: HospitalSettings, output: str | Path, threads: int = 1, **overrides: Any
        ) -> bool:
            if followed:
                of_followed(settings, dataset)
            output, options = Path(output), defaults | overrides
            values = settings.record() | options
            mark = fingerprint({"dataset": dataset, "generation": GENERATION, "settings": values})
            manifest = output / MANIFEST
            has_truth = all((output / TABLES[name].file).is_file() for name in truth)
            if has_truth and manifest.is_file() and read_json(manifest).get("fingerprint") == mark:
                log.info("%s: %s is there already, nothing to do", dataset, output)
                return False
            with held_folder(output, f"synthetic {dataset}"), naming(output):
                manifest.unlink(missing_ok=True)
                empty_folder(output)
                counts = fill(output, settings, threads, **options)
                about = {"dataset": dataset, "synthetic": True, "fingerprint": mark}
                write_json(manifest, {**about, "counts": counts, "settings": values})
            summary = ", ".join(f"{count} {name}" for name, count in counts.items())
            log.info("%s: %s", dataset, summary)
            return True

        return write

    return finished


def each(
    items: Sequence[Any],
    threads: int,
    label: str,
    function: Callable[..., ResultT],
    *arguments: object,
) -> Iterator[ResultT]:
    """Yield ``function(*arguments, item)`` in the order of ``items``, from several processes."""
    task = functools.partial(function, *arguments)
    show = functools.partial(progress, total=len(items), noun="case", size=lambda _: 1, title=label)
    if threads <= 1 or len(items) < 2:
        yield from show(map(task, items))
        return
    chunk = max(1, min(16, len(items) // (4 * threads)))
    with ProcessPoolExecutor(threads) as pool:
        yield from show(pool.map(task, items, chunksize=chunk))


def write_zip(path: Path, year: int, files: Iterable[tuple[str, str | bytes]]) -> None:
    """A zip of (name, content) with a fixed time stamp, the first day of a year."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)


def write_json_lines(path: Path, objects: Sequence[Mapping[str, object]]) -> None:
    """An object a line."""
    path.write_text("".join(json.dumps(record) + "\n" for record in objects), encoding="utf-8")


def write_gzip(path: Path, data: bytes) -> None:
    """Compress without a time stamp, so that equal data are equal bytes."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.write(data)


def write_table(
    path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]], separator: str = ","
) -> None:
    """A CSV with header; None is blank; quoted only where needed; gzipped where named .gz."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([columns, *rows])
    data = text.getvalue().encode()
    if path.suffix == ".gz":
        write_gzip(path, data)
    else:
        path.write_bytes(data)


def write_truth(folder: Path, name: str, rows: "pd.DataFrame") -> None:
    """A table of the truth behind a data set (:mod:`cxr_hospital.truth`), beside its files."""
    rows.to_parquet(folder / TABLES[name].file, index=False)
