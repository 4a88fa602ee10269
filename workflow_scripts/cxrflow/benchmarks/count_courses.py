"""Count how often patients return and how often reports mention change (BioViL-T B)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.data.settings import CourseStatisticsSettings
from cxrflow.command import parser, read_settings, run, thread_count


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--root", type=Path, required=True, help="Chest ImaGenome's folder")
    arguments.add_argument(
        "--dataset", default="chest_imagenome", help="name of the data set in the result"
    )
    arguments.add_argument("--studies-layout", required=True, help="layout with all studies")
    arguments.add_argument(
        "--studies-root", type=Path, required=True, help="folder of that data set"
    )
    arguments.add_argument(
        "--threads", type=thread_count, default=1, help="processes that read graphs"
    )
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, CourseStatisticsSettings)

    from cxrflow.benchmarks.data.course_statistics import score

    result = score(options, settings)
    result.write(options.output, model="course_statistics", seed=0, task=options.task)


if __name__ == "__main__":
    run(main)
