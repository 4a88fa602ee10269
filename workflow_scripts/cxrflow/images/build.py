"""Building a pixel store: shards in parallel, finished ones kept, everything checked at the end.

Processes decode images; this process puts those of a shard together in order and is the only one
that writes. So the bytes do not depend on the number of processes, and a full disk is noticed in
one place. A decoder in C or C++ may end its process on a damaged file: that costs this file alone.
"""

import contextlib
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.atomic import CHECKSUMS, atomic_path, file_digest, fingerprint, write_json
from cxr_files.drops import Tally
from cxr_files.ids import in_brackets
from cxr_files.outputs import held_folder
from cxr_files.parallel import chunks, guarded_map
from cxr_files.progress import progress
from cxr_files.reading import below, leads_out
from cxrflow.images.decode import needs_compiled_decoder
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import (
    Failure,
    Outcome,
    Source,
    failed,
    plan_fingerprint,
    read_whole_shard,
    shard_name,
    store_or_fail,
    write_shard,
)

log = logging.getLogger("cxrflow.images")

#: Fewer images than this are not worth starting processes for, unless a decoder may crash.
WORTH_PROCESSES = 96

INDEX_COLUMNS = {
    "image_id": "str",
    "path": "str",
    "shard": "int32",
    "row": "int32",
    "original_height": "int32",
    "original_width": "int32",
    "decoder": "str",
    "photometric": "str",
    "bits": "int16",
    "sha256": "str",
}


def build_store(
    root: Path,
    sources: Sequence[Source],
    geometry: Geometry,
    settings: PixelSettings,
    folder: Path,
    threads: int,
    count: Callable[[dict[str, Any]], dict[str, Any]] = lambda content: {},
) -> dict[str, Any]:
    """Make or complete the store in ``folder``; returns what is written to ``store.json``.

    Rows are in the order of ``sources``. ``count`` adds fields to ``store.json``: it is called with
    the others when all else is written, as a folder that has ``store.json`` is complete.

    Raises:
        InputError: more than ``settings.max_failed_share`` of the images failed, or the disk is
            full; finished shards stay.
    """
    with held_folder(folder, "pixel store"):
        for name in (CHECKSUMS, "store.json", "index.parquet"):  # not whole until the end
            (folder / name).unlink(missing_ok=True)
        per_shard = settings.images_per_shard
        chunked = list(chunks(sources, per_shard))
        numbers = range(len(chunked))
        with ThreadPoolExecutor(threads) as pool:
            plans = list(pool.map(lambda p: plan_fingerprint(root, p, geometry, settings), chunked))
            finished = list(pool.map(lambda i: read_whole_shard(folder, i, plans[i]), numbers))
        records = {number: record for number, record in enumerate(finished) if record is not None}
        if records:
            log.info("%d of %d shards are complete and kept", len(records), len(chunked))
        tally = Tally("images decoded", "images", len(sources))

        def spend(failures: Iterable[Failure]) -> None:
            for failure in failures:
                log.warning("not stored: %s%s", failure.reason, in_brackets([failure.path]))
                tally.drop(failure.reason, [failure.path], failed=True)
                tally.kept -= 1
            tally.require_few(folder, settings.max_failed_share)

        for record in records.values():
            spend(Failure(**failure) for failure in record["failures"])
        missing = [number for number in numbers if number not in records]
        remaining = [source for number in missing for source in chunked[number]]
        with contextlib.closing(
            stored_images(root, remaining, geometry, settings, threads)
        ) as outcomes:
            images = progress(outcomes, len(remaining), "image", lambda outcome: 1, "pixel store")
            for number in missing:
                shard = []
                for outcome in islice(images, len(chunked[number])):
                    if isinstance(outcome, Failure):
                        spend([outcome])
                    shard.append(outcome)
                records[number] = write_shard(folder, number, plans[number], geometry.size, shard)
        shards = {folder / shard_name(i) for i in numbers}
        descriptions = {path.with_suffix(".json") for path in shards}
        for stale in set(folder.glob("shard-*")) - shards - descriptions:
            stale.unlink()  # of an earlier, longer store
        content = _write_index(folder, [records[i] for i in numbers], geometry, settings)
        content |= count(content)
        write_json(folder / "store.json", content)
        return content


def stored_images(
    root: Path, sources: list[Source], geometry: Geometry, settings: PixelSettings, threads: int
) -> Generator[Outcome, None, None]:
    """Each image as stored, or its failure."""
    work = partial(store_or_fail, root, geometry=geometry, settings=settings)
    if len(sources) < WORTH_PROCESSES:
        threads = 1
        places = (source.path for source in sources if not leads_out(source.path))
        if not any(needs_compiled_decoder(below(root, place)) for place in places):
            yield from map(work, sources)
            return
    yield from guarded_map(work, sources, threads, failed, settings.max_seconds)


def _write_index(
    folder: Path,
    records: Sequence[dict[str, Any]],
    geometry: Geometry,
    settings: PixelSettings,
) -> dict[str, Any]:
    """Write ``index.parquet``; returns what the shards say of the store."""
    rows = [
        {**row, "shard": number, "row": position}
        for number, record in enumerate(records)
        for position, row in enumerate(record["rows"])
    ]
    failures = [failure for record in records for failure in record["failures"]]
    tally = Tally("images decoded", "images", len(rows))
    for failure in failures:
        tally.drop(failure["reason"], [failure["path"]], failed=True)
    index = pd.DataFrame(rows, columns=list(INDEX_COLUMNS)).astype(INDEX_COLUMNS)
    with atomic_path(folder / "index.parquet") as temporary:
        index.to_parquet(temporary, index=False)
    shards = [
        {"file": r["file"], "rows": len(r["rows"]), "bytes": r["bytes"], "sha256": r["sha256"]}
        for r in records
    ]
    return {
        "geometry": str(geometry),
        "size": geometry.size,
        "images": len(index),
        "dropped": [drop.as_json() for drop in tally.drops],
        "failures": failures,
        "decoders": index["decoder"].value_counts().sort_index().to_dict(),
        "photometric": index["photometric"].value_counts().sort_index().to_dict(),
        "settings": settings.model_dump(mode="json"),
        "shards": shards,
        "index_sha256": file_digest(folder / "index.parquet"),
        "fingerprint": fingerprint([str(geometry), list(index["image_id"]), shards]),
    }
