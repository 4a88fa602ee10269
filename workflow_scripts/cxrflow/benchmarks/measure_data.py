"""Measure the data themselves, without a model (docs/protocols.md).

    cxrflow measure_data vocabulary --vocabulary results/vocabulary/biovil/* \\
        --cohort results/cohorts/biovil/mimic_cxr --output scores

``cxrflow.benchmarks.registry`` says what each benchmark reads.
"""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.runner import inputs_of, score
from cxrflow.files.atomic import read_object
from cxrflow.programs.program import parser, run, thread_count
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
    arguments = parser(__doc__)
    able = sorted(name for name, benchmark in BENCHMARKS.items() if not benchmark.needs)
    arguments.add_argument("benchmark", choices=able, help="what is measured")
    arguments.add_argument("--cohort", type=Path, help="results/cohorts/<paper>/<cohort>")
    arguments.add_argument("--vocabulary", type=Path, nargs="+", help="tokenizer folders")
    arguments.add_argument("--pixels", type=Path, help="results/pixels/<paper>/<cohort>/<geometry>")
    arguments.add_argument(
        "--registration", type=Path, help="results/registration/<paper>/<cohort>/<geometry>"
    )
    arguments.add_argument(
        "--curation", type=Path, help="results/curation/<paper>/<cohort>: decisions"
    )
    arguments.add_argument(
        "--truth", type=Path, help="results/phantom/<layout> of the images, which holds the truth"
    )
    arguments.add_argument("--root", type=Path, help="folder of the data set that is counted")
    arguments.add_argument("--dataset", help="its name in the result")
    arguments.add_argument("--studies-layout", help="layout with all studies and their dates")
    arguments.add_argument("--studies-root", type=Path, help="folder of that data set")
    arguments.add_argument("--demographics", type=Path, help="MIMIC-IV's folder")
    arguments.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    benchmark = BENCHMARKS[options.benchmark]
    settings = read_settings(options.settings, benchmark.settings)
    needed, optional = OPTIONS[benchmark.reads]
    options_of_all = {name for kinds in OPTIONS.values() for names in kinds for name in names}
    for name in sorted(options_of_all - optional):
        if (getattr(options, name) is not None) != (name in needed):
            verb = "needs" if name in needed else "does not read"
            arguments.error(f"{options.benchmark} {verb} --{name.replace('_', '-')}")
    result = score(options.benchmark, inputs_of(options.benchmark, options, settings), settings)
    # Decisions are a model's, and say whether it has learnt.
    record = options.curation and options.curation / "curation.json"
    learnt = read_object(record)["learnt"] if record else None
    result.write(options.output, options.benchmark, 0, options.task, learnt)


if __name__ == "__main__":
    run(main)
