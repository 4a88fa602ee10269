"""Reports of several models beside the radiologist's, for the page (BioViL-T Table A.1).

    cxrflow show_reports --settings figure.yaml --output figure.json \\
        --results results/benchmarks/biovil_t/report_generation/biovil_t/report_biovil_t/seed0
"""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.generation.settings import ReportsFigureSettings
from cxrflow.command import parser, read_settings, run
from cxrflow.files import write_json


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--results",
        type=Path,
        nargs="+",
        required=True,
        help="of a task, results/benchmarks/<task>/<m>/seed<k>; first seeds",
    )
    arguments.add_argument("--output", type=Path, required=True, help="JSON that the page reads")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, ReportsFigureSettings)

    from cxrflow.benchmarks.generation.side_by_side import compare

    shown = {"kind": settings.kind, "title": settings.title, **compare(options, settings)}
    write_json(options.output, shown)


if __name__ == "__main__":
    run(main)
