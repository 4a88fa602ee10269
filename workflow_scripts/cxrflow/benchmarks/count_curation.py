"""Count curation's decisions, and the correct ones where the truth is known (BioViL-T A.4)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.data.settings import CurationStatisticsSettings
from cxrflow.command import parser, read_settings, run


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--curation", type=Path, required=True, help="results/curation/<cohort>: decisions"
    )
    arguments.add_argument("--truth", type=Path, help="the images' synthetic data set")
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, CurationStatisticsSettings)

    from cxrflow.benchmarks.data.curation_statistics import read_decisions, score

    decisions = read_decisions(options.curation)
    result = score(decisions, options.truth, settings)
    name, learnt = "curation_statistics", decisions.said["learnt"]
    result.write(options.output, model=name, seed=0, task=options.task, learnt=learnt)


if __name__ == "__main__":
    run(main)
