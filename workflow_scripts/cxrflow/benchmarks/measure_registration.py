"""Compare the registration of prior images with the synthetic hospital's truth; needs no model."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.temporal.settings import RegistrationErrorSettings
from cxrflow.command import parser, read_settings, run, thread_count


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    arguments.add_argument("--pixels", type=Path, required=True, help="results/pixels/<cohort>/<g>")
    arguments.add_argument(
        "--registration", type=Path, required=True, help="results/registration/<cohort>/<g>"
    )
    arguments.add_argument(
        "--truth", type=Path, required=True, help="the images' synthetic data set"
    )
    arguments.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, RegistrationErrorSettings)

    from cxrflow.benchmarks.temporal.registration_error import score

    result = score(options, settings)
    result.write(options.output, model="registration_error", seed=0, task=options.task)


if __name__ == "__main__":
    run(main)
