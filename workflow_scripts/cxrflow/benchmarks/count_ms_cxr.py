"""Count phrases, images and patients of MS-CXR, and who the patients are (BioViL Table C.1)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.data.settings import MsCxrStatisticsSettings
from cxrflow.command import parser, read_settings, run, thread_count


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--root", type=Path, required=True, help="MS-CXR's folder")
    arguments.add_argument("--dataset", default="ms_cxr", help="name of the data set in the result")
    arguments.add_argument(
        "--studies-layout", required=True, help="layout with all studies and dates"
    )
    arguments.add_argument(
        "--studies-root", type=Path, required=True, help="folder of that data set"
    )
    arguments.add_argument("--demographics", type=Path, help="MIMIC-IV's folder")
    arguments.add_argument(
        "--threads", type=thread_count, default=1, help="processes that read headers"
    )
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, MsCxrStatisticsSettings)

    from cxrflow.benchmarks.data.ms_cxr_statistics import score

    result = score(options, settings)
    result.write(options.output, model="ms_cxr_statistics", seed=0, task=options.task)


if __name__ == "__main__":
    run(main)
