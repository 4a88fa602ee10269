"""Score a model on a benchmark (docs/protocols.md).

    cxrflow evaluate phrase_grounding \\
        --model results/models/biovil/biovil/seed0 --cohort results/cohorts/biovil/ms_cxr \\
        --pixels results/pixels/biovil/ms_cxr/shorter128 --output scores

``cxrflow.benchmarks.registry`` says what each benchmark reads besides the model and the cohort.
"""

from collections.abc import Sequence

from cxrflow.benchmarks.options import require_inputs, task_parser
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.files.atomic import read_object
from cxrflow.files.outputs import claim_folder, remove_folder
from cxrflow.programs.program import run, seed_number
from cxrflow.settings import read_settings

READ = ("training", "pixels", "registration", "features", "state", "stanza")


def main(argv: Sequence[str] | None = None) -> None:
    scored = (name for name, benchmark in BENCHMARKS.items() if benchmark.needs)
    arguments = task_parser(__doc__, scored, ("model", "cohort"), (*READ, "truth"))
    arguments.add_argument(
        "--seed", type=seed_number, default=0, help="seed the model was trained with"
    )
    options = arguments.parse_args(argv)
    benchmark = BENCHMARKS[options.benchmark]
    settings = read_settings(options.settings, benchmark.settings)
    required = benchmark.inputs(settings)
    if benchmark.training or (benchmark.reports and options.training):
        required.add("training")
    if benchmark.resumes:
        required.add("state")
    require_inputs(arguments, options, READ, required)
    if options.truth is not None and benchmark.truth is None:
        arguments.error(f"{options.benchmark} does not read --truth")
    if options.state is not None:
        claim_folder(options.state, "benchmark state")
    # Not above: a mistake in the options need not wait for libraries.
    from cxrflow.benchmarks.runner import inputs_of, score

    result = score(options.benchmark, inputs_of(options.benchmark, options, settings), settings)
    record = options.model / "run.json"
    run_record = read_object(record) if record.is_file() else {}
    name = str(run_record.get("model") or options.model.resolve().parent.name)
    differs = run_record.get("permuted_pairs", {}).get("differs")
    training = (differs, run_record.get("drawn", "steps" in run_record))
    result.write(options.output, name, options.seed, options.task, *training)
    if options.state is not None:
        remove_folder(options.state)


if __name__ == "__main__":
    run(main)
