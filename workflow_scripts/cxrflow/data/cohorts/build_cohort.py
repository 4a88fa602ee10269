"""Make a cohort: read a data set, filter it, split it, check it for leaks (docs/data.md)."""

import os
from collections.abc import Sequence
from pathlib import Path

from cxr_files.program import parser, run, thread_count
from cxr_files.settings import read_settings
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.kinds import REHEARSAL


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options and build the cohort with the module of its kind."""
    arguments = parser(__doc__)
    arguments.add_argument("--layout", required=True, help="layout of the data set")
    arguments.add_path("--root", "folder of the data set")
    arguments.add_argument(
        "--dataset", help="name of the data set in the result (default: the layout)"
    )
    arguments.add_argument("--corpus", type=Path, help="results/corpus/<dataset> (kind: pairs)")
    arguments.add_argument(
        "--held-out",
        action="append",
        default=[],
        metavar="[NAME:]LAYOUT[/PART,PART][@IDS]=ROOT",
        help="evaluation set whose patients (of these parts of its own split) go to test; repeat "
        "the option for several",
    )
    arguments.add_argument(
        "--ids",
        help="how its patients are numbered, as chexpert, where not as the layout says; @IDS: the "
        "same of a set that is held out",
    )
    arguments.add_argument(
        "--training",
        metavar="LAYOUT=ROOT",
        help="data set whose silver labels are trained on (progression)",
    )
    arguments.add_argument("--images-layout", help="layout that holds the images, if another")
    arguments.add_argument("--images-root", type=Path, help="folder of that data set")
    arguments.add_argument(
        "--curation",
        type=Path,
        help="curation.parquet of `cxrflow curate_images`: images that it rejects are not chosen",
    )
    arguments.add_argument(
        "--threads", type=thread_count, default=1, help="processes that read headers"
    )
    arguments.add_path("--output", "cohort folder to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, CohortSettings)

    from cxrflow.data.cohorts.cohort import make_cohort

    make_cohort(options, settings)

    from cxrflow.data.cohorts.demands import check_noted

    check_noted(options.output)
    if os.environ.get(REHEARSAL):  # after the check, which is of all rows
        from cxrflow.data.slices import cut_cohort

        cut_cohort(options.output)


if __name__ == "__main__":
    run(main)
