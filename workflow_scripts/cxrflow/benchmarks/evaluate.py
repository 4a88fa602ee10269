"""Score a model on a benchmark (docs/protocols.md).

    cxrflow evaluate phrase_grounding \\
        --model results/models/biovil/biovil/seed0 --cohort results/cohorts/biovil/ms_cxr \\
        --pixels results/pixels/biovil/ms_cxr/shorter128 --output scores

``cxrflow.benchmarks.registry`` says what each benchmark reads besides the model and the cohort.
"""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.runner import inputs_of, score
from cxrflow.files.atomic import read_object
from cxrflow.files.outputs import claim_folder, remove_folder
from cxrflow.programs.program import parser, run, seed_number
from cxrflow.settings import read_settings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    scored = sorted(name for name, benchmark in BENCHMARKS.items() if benchmark.needs)
    arguments.add_argument("benchmark", choices=scored, help="what is measured")
    arguments.add_argument(
        "--model", type=Path, required=True, help="results/models/<paper>/<model>/seed<k>"
    )
    arguments.add_argument(
        "--seed", type=seed_number, default=0, help="seed the model was trained with"
    )
    arguments.add_argument(
        "--cohort", type=Path, required=True, help="results/cohorts/<paper>/<cohort>"
    )
    arguments.add_argument(
        "--training", type=Path, help="results/cohorts/<paper>/<cohort> to learn from"
    )
    arguments.add_argument("--pixels", type=Path, help="results/pixels/<paper>/<cohort>/<geometry>")
    arguments.add_argument(
        "--registration", type=Path, help="results/registration/<paper>/<cohort>/<geometry>"
    )
    arguments.add_argument(
        "--features", type=Path, help="results/features/<paper>/<model>/seed<k>/<paper>/<cohort>"
    )
    arguments.add_argument("--state", type=Path, help="folder of the resumable state")
    arguments.add_argument("--stanza", type=Path, help="folder of stanza's models")
    arguments.add_argument(
        "--truth", type=Path, help="results/phantom/<layout> of the images, which holds the truth"
    )
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    benchmark = BENCHMARKS[options.benchmark]
    settings = read_settings(options.settings, benchmark.settings)
    required = benchmark.inputs(settings)
    if benchmark.training or (benchmark.reports and options.training):
        required.add("training")
    if benchmark.resumes:
        required.add("state")
    for name in ("training", "pixels", "registration", "features", "state", "stanza"):
        if (getattr(options, name) is not None) != (name in required):
            verb = "needs" if name in required else "does not read"
            arguments.error(f"{options.benchmark} {verb} --{name}")
    if options.truth is not None and benchmark.truth is None:
        arguments.error(f"{options.benchmark} does not read --truth")
    if options.state is not None:
        claim_folder(options.state, "benchmark state")
    result = score(options.benchmark, inputs_of(options.benchmark, options, settings), settings)
    record = options.model / "run.json"
    run_record = read_object(record) if record.is_file() else {}
    name = str(run_record.get("model") or options.model.resolve().parent.name)
    training = (run_record.get("learnt"), run_record.get("drawn", False))
    result.write(options.output, name, options.seed, options.task, *training)
    if options.state is not None:
        remove_folder(options.state)


if __name__ == "__main__":
    run(main)
