"""Choose among several images of a study the one that fits its report (docs/biovil_t.md)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.settings import CurationSettings
from cxrflow.programs.program import parser, run
from cxrflow.settings import read_settings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--model", type=Path, required=True, help="results/models/<paper>/<model>/seed<k>"
    )
    arguments.add_argument(
        "--cohort", type=Path, required=True, help="pairs with `unit: image`: all frontal images"
    )
    arguments.add_argument(
        "--pixels", type=Path, required=True, help="results/pixels/<paper>/<cohort>/<geometry>"
    )
    arguments.add_argument("--output", type=Path, required=True, help="folder to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, CurationSettings)

    from cxrflow.benchmarks.curation import curate

    curate(options, settings)


if __name__ == "__main__":
    run(main)
