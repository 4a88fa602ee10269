"""Score a reference row of a benchmark, which learns nothing (docs/references.md).

    cxrflow score_reference phrase_grounding finding_box \\
        --cohort results/cohorts/biovil/ms_cxr --pixels results/pixels/biovil/ms_cxr/shorter128 \\
        --output scores

``cxrflow.benchmarks.registry`` lists the rows of each benchmark.
"""

from collections.abc import Sequence

from cxrflow.benchmarks.options import require_inputs, task_parser
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.names import reference_name
from cxrflow.programs.program import run
from cxrflow.settings import read_settings


def main(argv: Sequence[str] | None = None) -> None:
    scored = (name for name, benchmark in BENCHMARKS.items() if benchmark.references)
    arguments = task_parser(__doc__, scored, ("cohort",), ("pixels", "training", "stanza"))
    arguments.add_argument("reference", help="one of the benchmark's reference rows")
    options = arguments.parse_args(argv)
    benchmark = BENCHMARKS[options.benchmark]
    if options.reference not in benchmark.references:
        names = ", ".join(benchmark.references)
        arguments.error(f"{options.benchmark} has no reference '{options.reference}'; has {names}")
    required = {"pixels"} if benchmark.reads in ("pixels", "features") else set()
    required |= {"training"} if benchmark.training else set()
    require_inputs(arguments, options, sorted(required | {"pixels"}), required)
    settings = read_settings(options.settings, benchmark.settings)
    # Not above: a mistake in the options need not wait for libraries.
    from cxrflow.benchmarks.runner import inputs_of, score

    inputs = inputs_of(options.benchmark, options, settings)
    result = score(options.benchmark, inputs, settings, options.reference)
    result.write(options.output, reference_name(options.reference), 0, options.task)


if __name__ == "__main__":
    run(main)
