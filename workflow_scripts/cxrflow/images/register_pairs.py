"""Register prior images of cohorts to the current ones, or resume it (docs/registration.md)."""

import logging
from collections.abc import Sequence
from pathlib import Path

from cxr_files.program import parser, run, thread_count
from cxr_files.settings import read_settings
from cxrflow.images.settings import RegistrationSettings

log = logging.getLogger("cxrflow.images")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    tables = "tables with image_id and prior_image_id: pairs.parquet, samples.parquet"
    arguments.add_argument("--pairs", type=Path, nargs="+", required=True, help=tables)
    arguments.add_path("--pixels", "pixel store of the current and the prior images")
    arguments.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    arguments.add_path("--output", "folder to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, RegistrationSettings)

    from cxrflow.images.alignments import build_alignments, read_pairs
    from cxrflow.images.store import PixelStore

    pairs, store = read_pairs(options.pairs), PixelStore(options.pixels)
    content = build_alignments(pairs, store, settings, options.output, options.threads)
    reasons = ", ".join(f"{drop['count']} x {drop['reason']}" for drop in content["dropped"])
    log.info("%s: %d pairs registered; failed: %s", options.output, content["kept"], reasons or 0)


if __name__ == "__main__":
    run(main)
