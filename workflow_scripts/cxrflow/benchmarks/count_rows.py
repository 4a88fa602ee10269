"""Count the rows of a cohort by kind; needs no model."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.command import parser, read_settings, run


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    known = [name for name, one in BENCHMARKS.items() if one.counts == "rows"]
    arguments.add_argument("benchmark", choices=known)
    arguments.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    benchmark = BENCHMARKS[options.benchmark]
    settings = read_settings(options.settings, benchmark.settings)
    program = import_module(f"cxrflow.benchmarks.{benchmark.program}")
    result = program.score(options, settings)
    result.write(options.output, model=options.benchmark, seed=0, task=options.task)


if __name__ == "__main__":
    run(main)
