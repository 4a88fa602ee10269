"""Put pairs, or progressions, of several data sets together as one cohort (docs/data.md)."""

import os
from collections.abc import Sequence
from pathlib import Path

from cxr_files.program import parser, run


def common_folder(roots: Sequence[Path]) -> str:
    """The folder under which the images of all data sets lie, by one path each."""
    return os.path.commonpath([os.path.abspath(root) for root in roots])


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, join the cohorts and check what this run asks of them."""
    arguments = parser(__doc__, settings=False)
    arguments.add_argument(
        "--cohorts", type=Path, nargs="+", required=True, help="finished cohorts of one kind"
    )
    arguments.add_argument(
        "--roots", type=Path, nargs="+", required=True, help="of each the folder of its images"
    )
    arguments.add_path("--output", "cohort folder to write")
    options = arguments.parse_args(argv)
    if len(options.cohorts) != len(options.roots):
        arguments.error("--roots: expected a folder for each of --cohorts")

    from cxrflow.data.cohorts.demands import check_noted
    from cxrflow.data.cohorts.joined import join

    join(options.cohorts, options.roots, common_folder(options.roots), options.output)
    check_noted(options.output)


if __name__ == "__main__":
    run(main)
