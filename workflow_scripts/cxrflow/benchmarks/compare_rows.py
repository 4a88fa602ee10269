"""Test whether two models' scores on the same samples differ: paired tests between table rows."""

from collections.abc import Sequence
from pathlib import Path

from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.settings import PairedTestSettings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--predictions",
        type=Path,
        nargs="*",
        default=[],
        help="predictions.parquet of any models and seeds, metrics.json beside each",
    )
    arguments.add_argument("--output", type=Path, required=True, help="JSON file")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, PairedTestSettings)

    from cxrflow.benchmarks.paired_tests import compare_rows

    compare_rows(options, settings)


if __name__ == "__main__":
    run(main)
