"""Measure the data themselves, without a model (docs/protocols.md).

    cxrflow measure_data vocabulary --vocabulary results/vocabulary/biovil/* \\
        --cohort results/cohorts/biovil/mimic_cxr --output scores

``cxrflow.benchmarks.registry`` says what each benchmark reads.
"""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.options import require_inputs, task_parser
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.files.atomic import read_object
from cxrflow.programs.program import run, thread_count
from cxrflow.settings import read_settings

# By what a benchmark reads: the options that it needs, and those that it takes beside them.
OPTIONS: dict[str, tuple[set[str], set[str]]] = {
    "samples": ({"cohort"}, set()),
    "vocabularies": ({"cohort", "vocabulary"}, set()),
    "registration": ({"cohort", "pixels", "registration", "truth"}, set()),
    "curation": ({"curation"}, {"truth"}),
    "datasets": ({"dataset", "root", "studies_layout", "studies_root"}, {"demographics"}),
}


def main(argv: Sequence[str] | None = None) -> None:
    able = (name for name, benchmark in BENCHMARKS.items() if not benchmark.needs)
    folders = ("cohort", "pixels", "registration", "curation", "truth", "root", "studies_root")
    arguments = task_parser(__doc__, able, (), (*folders, "demographics"))
    arguments.add_argument("--vocabulary", type=Path, nargs="+", help="tokenizer folders")
    arguments.add_argument("--dataset", help="its name in the result")
    arguments.add_argument("--studies-layout", help="layout with all studies and their dates")
    arguments.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    options = arguments.parse_args(argv)
    benchmark = BENCHMARKS[options.benchmark]
    settings = read_settings(options.settings, benchmark.settings)
    needed, optional = OPTIONS[benchmark.reads]
    names = {name for kinds in OPTIONS.values() for options_of in kinds for name in options_of}
    require_inputs(arguments, options, sorted(names - optional), needed)
    # Not above: a mistake in the options need not wait for libraries.
    from cxrflow.benchmarks.runner import inputs_of, score

    result = score(options.benchmark, inputs_of(options.benchmark, options, settings), settings)
    # Decisions are a model's, and say whether it has learnt.
    record = options.curation and options.curation / "curation.json"
    learnt = read_object(record)["learnt"] if record else None
    result.write(options.output, options.benchmark, 0, options.task, learnt)


if __name__ == "__main__":
    run(main)
