"""Score a model on a benchmark (docs/protocols.md), a reference row, or the data alone.

    cxrflow evaluate phrase_grounding \\
        --model results/models/biovil/biovil/seed0 --cohort results/cohorts/biovil/ms_cxr \\
        --pixels results/pixels/biovil/ms_cxr/shorter128 --output scores

``--reference finding_box`` in place of ``--model`` scores a reference row, which has learnt nothing
(docs/references.md). ``--external scores.csv`` scores what a model said that was run elsewhere
(docs/external_models.md). A benchmark of the data alone, such as ``vocabulary``, takes neither.
``cxrflow.benchmarks.registry`` says what each benchmark reads, and which reference rows it has.
"""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from cxr_files.atomic import read_object
from cxr_files.errors import InputError
from cxr_files.outputs import claim_folder, remove_folder
from cxr_files.program import Parser, parser, run, seed_number, tell_workflow, thread_count
from cxr_files.settings import read_settings
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.models.run_record import learnt, read_run
from cxrflow.names import reference_name

log = logging.getLogger("cxrflow")

COHORT, PIXELS = "<paper>/<cohort>", "<paper>/<cohort>/<geometry>"
FOLDERS = {
    "cohort": f"results/cohorts/{COHORT}",
    "training": f"results/cohorts/{COHORT} to learn from, or of training reports",
    "pixels": f"results/pixels/{PIXELS}",
    "registration": f"results/registration/{PIXELS}",
    "features": f"results/features/<paper>/<model>/seed<k>/{COHORT}",
    "curation": f"results/curation/{COHORT}: decisions",
    "state": "folder of the resumable state",
    "stanza": "folder of stanza's models",
    "truth": "results/phantom/<layout> of the images, which holds the truth",
    "root": "folder of the data set that is counted",
    "studies_root": "folder of the data set with all studies",
    "demographics": "MIMIC-IV's folder",
}
INPUTS = sorted([*FOLDERS, "model", "vocabulary", "dataset", "studies_layout"])


def read_options(argv: Sequence[str] | None) -> tuple[Parser, argparse.Namespace]:
    """Return the options of every benchmark, and the parser, which refuses them."""
    arguments = parser(__doc__)
    benchmark_help = f"what is measured: {', '.join(sorted(BENCHMARKS))}, or module:Class"
    arguments.add_argument("benchmark", help=benchmark_help)
    row = arguments.add_mutually_exclusive_group()
    row.add_argument("--model", type=Path, help="results/models/<paper>/<model>/seed<k>")
    row.add_argument("--reference", help="one of the benchmark's reference rows")
    external_help = (
        "CSV or Parquet file of scores, vectors, reports or maps that were made elsewhere"
    )
    row.add_argument("--external", type=Path, help=external_help)
    arguments.add_argument("--name", help="of --external in the result (default: the file's)")
    arguments.add_argument(
        "--least-share",
        type=float,
        default=1.0,
        help="of the task's rows that --external must hold (default: 1, all of them)",
    )
    arguments.add_argument(
        "--or-reason",
        action="store_true",
        help="of a file that is refused write why, as a result without scores, and end well",
    )
    for name, place in FOLDERS.items():
        arguments.add_argument(f"--{name.replace('_', '-')}", type=Path, help=place)
    arguments.add_argument("--vocabulary", type=Path, nargs="+", help="tokenizer folders")
    arguments.add_argument("--dataset", help="its name in the result")
    arguments.add_argument("--studies-layout", help="layout with all studies and their dates")
    seed_help = "seed the model was trained with"
    arguments.add_argument("--seed", type=seed_number, default=0, help=seed_help)
    threads_help = "parallel processes that measure data"
    arguments.add_argument("--threads", type=thread_count, default=1, help=threads_help)
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    return arguments, arguments.parse_args(argv)


def name_of(options: argparse.Namespace) -> tuple[str, bool | None, bool]:
    """Return the result's name, whether its model has learnt, and if weights are drawn."""
    if options.reference is not None:
        return reference_name(options.reference), None, False
    if options.external is not None:
        return options.name or options.external.stem, None, False
    if options.model is not None:
        record = read_run(options.model)
        name = str(record.get("model") or options.model.resolve().parent.name)
        return name, learnt(record), record.get("drawn", "steps" in record)
    # Decisions are a model's, and say whether it has learnt.
    decided = options.curation and read_object(options.curation / "curation.json")
    return options.benchmark, decided["learnt"] if decided else None, False


def main(argv: Sequence[str] | None = None) -> None:
    arguments, options = read_options(argv)
    reference = options.reference
    try:
        benchmark = BENCHMARKS.named(options.benchmark)
    except ValueError as error:
        arguments.error(f"benchmark {error}")
    if reference is not None and reference not in benchmark.references:
        names = ", ".join(benchmark.references) or "none"
        arguments.error(f"{options.benchmark} has no reference '{reference}'; has {names}")
    if options.external is not None and not benchmark.external:
        names = ", ".join(name for name, entry in BENCHMARKS.items() if entry.external)
        arguments.error(f"{options.benchmark} takes no --external; these do: {names}")
    if options.name is not None and options.external is None:
        arguments.error("--name is of --external")
    if options.external is None and (options.or_reason or options.least_share != 1):
        arguments.error("--least-share and --or-reason are of --external")
    if not 0 < options.least_share <= 1:
        arguments.error(f"--least-share {options.least_share:g}: expected more than 0, at most 1")
    settings = read_settings(options.settings, benchmark.settings)
    without_model = reference is not None or options.external is not None
    required = benchmark.inputs(settings, without_model, reference in benchmark.of_states)
    for name in INPUTS:
        option, is_given = f"--{name.replace('_', '-')}", getattr(options, name) is not None
        if name in required and not is_given:
            arguments.error(f"{options.benchmark} needs {option}")
        if is_given and name not in required | benchmark.optional_inputs():
            arguments.error(f"{options.benchmark} does not read {option}")
    if options.state is not None:
        claim_folder(options.state, "benchmark state")
    # Not above: a mistake in the options need not wait for libraries.
    from cxrflow.benchmarks.runner import inputs_of, refused, score

    inputs = inputs_of(options.benchmark, options, settings)
    file = (options.external, options.least_share)
    try:
        result = score(options.benchmark, inputs, settings, reference, *file)
    except InputError as error:
        if not options.or_reason:
            raise
        # Its row shows the reason; the rows beside it are not held up.
        result = refused(options.benchmark, inputs, settings, error)
        line = f"{options.name or options.external} is not scored: {error}"
        log.warning(line)
        tell_workflow(f"WARNING {line}")
    name, differs, drawn = name_of(options)
    result.write(options.output, name, options.seed, options.task, differs, drawn)
    if options.state is not None:
        remove_folder(options.state)


if __name__ == "__main__":
    run(main)
