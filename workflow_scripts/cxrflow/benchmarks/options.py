"""Options of the programs that run a benchmark: the folders it reads, by name."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from cxrflow.programs.program import Parser, parser

COHORT, PIXELS = "<paper>/<cohort>", "<paper>/<cohort>/<geometry>"
FOLDERS = {
    "model": "results/models/<paper>/<model>/seed<k>",
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


def task_parser(
    doc: str | None, benchmarks: Iterable[str], required: Iterable[str], optional: Iterable[str]
) -> Parser:
    """Return the parser of a program that runs one of ``benchmarks`` on these folders."""
    arguments = parser(doc)
    arguments.add_argument("benchmark", choices=sorted(benchmarks), help="what is measured")
    for name in (*required, *optional):
        option = f"--{name.replace('_', '-')}"
        arguments.add_argument(option, type=Path, required=name in required, help=FOLDERS[name])
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    return arguments


def require_inputs(
    arguments: Parser, options: argparse.Namespace, names: Iterable[str], required: set[str]
) -> None:
    """End with one line unless exactly the ``required`` ones of these options are given."""
    for name in names:
        if (getattr(options, name) is not None) != (name in required):
            verb = "needs" if name in required else "does not read"
            arguments.error(f"{options.benchmark} {verb} --{name.replace('_', '-')}")
