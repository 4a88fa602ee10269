"""Encode the images of a cohort with a model, once for all benchmarks that start from features."""

from collections.abc import Sequence

from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.settings import FeatureSettings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_path("--model", "results/models/<paper>/<model>/seed<k>")
    arguments.add_path("--cohort", "results/cohorts/<paper>/<cohort>")
    arguments.add_path("--pixels", "results/pixels/<paper>/<cohort>/<geometry>")
    arguments.add_path("--output", "feature folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, FeatureSettings)

    from cxrflow.benchmarks.features import extract

    extract(options, settings)


if __name__ == "__main__":
    run(main)
