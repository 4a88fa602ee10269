"""Decode and resize the images of cohorts into a pixel store, or complete one (docs/pixels.md)."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxr_files.errors import InputError
from cxr_files.program import parser, run, thread_count
from cxr_files.settings import read_settings
from cxrflow.images.settings import PixelSettings

log = logging.getLogger("cxrflow.images")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_path("--root", "folder of the data set")
    lists = "images.parquet of one or more cohorts"
    arguments.add_argument("--images", type=Path, nargs="+", required=True, help=lists)
    arguments.add_argument("--geometry", required=True, help="shorter512, longer256, square512, …")
    arguments.add_argument("--threads", type=thread_count, default=1, help="decoding processes")
    arguments.add_path("--output", "pixel store to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, PixelSettings)

    from cxr_files.atomic import file_digest, write_checksums
    from cxrflow.images.build import build_store
    from cxrflow.images.copies import check_noted, likenesses
    from cxrflow.images.equal_pictures import equal_pictures, patients_of
    from cxrflow.images.geometry import Geometry
    from cxrflow.images.store import PixelStore, read_sources

    geometry = Geometry.parse(options.geometry)
    if not options.root.is_dir():
        raise InputError(f"{options.root}: data root is not a folder")
    sources = read_sources(options.images)
    rows = patients_of(path.parent for path in options.images)

    def shared_pictures(fields: dict[str, Any]) -> dict[str, Any]:
        store = PixelStore(options.output, fields=fields)
        cells, most = likenesses(store), settings.max_shared_share
        counts = equal_pictures(store.index, cells, rows, most, options.output)
        return {"shared_pictures": counts}

    count = shared_pictures if len(rows) else lambda fields: {}
    folder, threads = options.output, options.threads
    content = build_store(options.root, sources, geometry, settings, folder, threads, count)
    write_checksums(
        options.output,
        {
            **{shard["file"]: shard["sha256"] for shard in content["shards"]},
            **{
                name: file_digest(options.output / name) for name in ("store.json", "index.parquet")
            },
        },
    )
    check_noted(options.output)
    reasons = ", ".join(f"{drop['count']} x {drop['reason']}" for drop in content["dropped"])
    log.info("%s: %d images stored; failed: %s", options.output, content["images"], reasons or 0)


if __name__ == "__main__":
    run(main)
