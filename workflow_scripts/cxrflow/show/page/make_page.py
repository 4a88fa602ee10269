"""Write the report page of a run (docs/page.md)."""

import logging
from collections.abc import Sequence

from cxr_files.atomic import atomic_path
from cxr_files.program import parser, run

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    arguments = parser(__doc__, settings=False)
    arguments.add_path("--config", "recorded configuration: report/config.json")
    arguments.add_path("--results", "results folder")
    arguments.add_argument(
        "--papers",
        nargs="*",
        default=[],
        metavar="PAPER=EXTENT",
        help="papers to show and how much of each (default: as configured)",
    )
    arguments.add_argument(
        "--so-far", default="", help="of a run that goes on: what there is of it"
    )
    arguments.add_path("--output", "the first page; the others go beside it, into NAME_files/")
    options = arguments.parse_args(argv)

    from cxrflow.show.page.page import build_pages

    pages = build_pages(
        options.config, options.results, options.output, options.papers, options.so_far
    )
    for page, html in pages.items():
        with atomic_path(page) as temporary:
            temporary.write_text(html, encoding="utf-8")
        log.info("%s: %.1f MB", page, len(html.encode()) / 1e6)


if __name__ == "__main__":
    run(main)
