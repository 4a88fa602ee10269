"""Draw a figure of a paper: what models made of the same images or reports, side by side.

    cxrflow draw_figure t_sne --settings figure.yaml --output figure.png \\
        --cohort results/cohorts/convirt/retrieval_8x200 \\
        --results results/benchmarks/convirt/image_retrieval/convirt/convirt/seed0 \\
        --models results/models/convirt/convirt/seed0 \\
        --features results/features/convirt/convirt/seed0/convirt/retrieval_8x200

Beside the picture a JSON file says what is on it; of texts there is no picture.
"""

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from cxr_files.atomic import write_png, write_sealed
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.classification.saliency_settings import SaliencyFigureSettings
from cxrflow.benchmarks.generation.settings import ReportsFigureSettings
from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings, PriorFigureSettings
from cxrflow.benchmarks.retrieval.settings import (
    EmbeddingFigureSettings,
    NeighboursFigureSettings,
    RetrievedFigureSettings,
)

Figure = (
    GroundingFigureSettings
    | PriorFigureSettings
    | EmbeddingFigureSettings
    | SaliencyFigureSettings
    | ReportsFigureSettings
    | NeighboursFigureSettings
    | RetrievedFigureSettings
)
KINDS: dict[str, type[Figure]] = {
    each.model_fields["kind"].default: each for each in get_args(Figure)
}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("kind", choices=KINDS, help="what is drawn")
    arguments.add_argument(
        "--results",
        type=Path,
        nargs="+",
        required=True,
        help="of one task, results/benchmarks/<paper>/<task>/<paper>/<model>/seed<k>; of priors, "
        "with them and without",
    )
    arguments.add_argument("--cohort", type=Path, help="results/cohorts/<paper>/<cohort>")
    for name, example in (
        ("models", "results/models/<paper>/<model>/seed<k>"),
        ("features", "results/features/<paper>/<model>/seed<k>/<paper>/<cohort>"),
        ("pixels", "results/pixels/<paper>/<cohort>/<geometry>"),
    ):
        arguments.add_argument(
            f"--{name}", type=Path, nargs="+", default=[], help=f"of each result, {example}"
        )
    arguments.add_argument(
        "--phrases",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="print the phrases of grounding, which are report text",
    )
    arguments.add_argument(
        "--output", type=Path, required=True, help="picture to write, or JSON where there is none"
    )
    options = arguments.parse_args(argv)
    kind = KINDS[options.kind]
    if kind.READS and options.cohort is None:
        arguments.error(f"{options.kind} needs --cohort")
    for name in kind.READS:
        if len(getattr(options, name)) != len(options.results):
            arguments.error(f"{options.kind} needs as many --{name} as --results")
    settings = read_settings(options.settings, kind)
    # Not above: a mistake in the options need not wait for libraries.
    from cxrflow.benchmarks.figures.frame import FigureInputs

    module = importlib.import_module(f"cxrflow.{kind.PROGRAM}")
    inputs = FigureInputs(options, kind.READS, getattr(module, "COLUMNS", ()))
    drawing = module.draw(inputs, settings)
    if drawing.picture is not None:
        write_png(options.output, drawing.picture)
    content = {name: getattr(drawing, name) for name in ("caption", "lines", "shows")}
    entry = {"kind": settings.kind, "title": settings.title, "data": inputs.data, **content}
    write_sealed(options.output.with_suffix(".json"), {**entry, **drawing.more})


if __name__ == "__main__":
    run(main)
