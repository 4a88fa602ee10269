"""Choose among several images of a study the one that fits its report (docs/biovil_t.md)."""

from collections.abc import Sequence

from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.settings import CurationSettings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_path("--model", "results/models/<paper>/<model>/seed<k>")
    arguments.add_path("--cohort", "pairs with `unit: image`: all frontal images")
    arguments.add_path("--pixels", "results/pixels/<paper>/<cohort>/<geometry>")
    arguments.add_path("--output", "folder to write")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, CurationSettings)

    from cxrflow.benchmarks.data.curation import curate

    curate(options, settings)


if __name__ == "__main__":
    run(main)
