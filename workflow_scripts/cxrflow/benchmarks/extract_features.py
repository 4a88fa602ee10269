"""Encode the images of a cohort with a model, once for all benchmarks that start from features."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.settings import FeatureSettings
from cxrflow.programs.program import parser, run
from cxrflow.settings import read_settings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--model", type=Path, required=True, help="results/models/<paper>/<model>/seed<k>"
    )
    arguments.add_argument(
        "--cohort", type=Path, required=True, help="results/cohorts/<paper>/<cohort>"
    )
    arguments.add_argument(
        "--pixels", type=Path, required=True, help="results/pixels/<paper>/<cohort>/<geometry>"
    )
    arguments.add_argument("--output", type=Path, required=True, help="feature folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, FeatureSettings)

    from cxrflow.benchmarks.features import extract

    extract(options, settings)


if __name__ == "__main__":
    run(main)
