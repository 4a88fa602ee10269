"""Draw several models side by side: a map of their features, or what their heads look at.

    cxrflow draw_models t_sne --settings figure.yaml --output figure.png \\
        --cohort results/cohorts/convirt/retrieval_8x200 \\
        --results results/benchmarks/convirt/image_retrieval/convirt/convirt/seed0 \\
        --models results/models/convirt/convirt/seed0 \\
        --features results/features/convirt/convirt/seed0/convirt/retrieval_8x200

ConVIRT Figures 3 (``t_sne``) and 4 (``saliency``).
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.classification.saliency_settings import SaliencyFigureSettings
from cxrflow.benchmarks.model_figures import write_picture
from cxrflow.benchmarks.retrieval.settings import EmbeddingFigureSettings
from cxrflow.command import parser, read_settings, run

# By kind: its settings, and what its program reads of each model.
KINDS: dict[str, tuple[type[EmbeddingFigureSettings | SaliencyFigureSettings], str]] = {
    "t_sne": (EmbeddingFigureSettings, "features"),
    "saliency": (SaliencyFigureSettings, "pixels"),
}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("kind", choices=KINDS)
    arguments.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    for name, said in (
        ("results", "of a task, results/benchmarks/<task>/<m>/seed<k>; first seeds"),
        ("models", "in the order of the results, results/models/<m>/seed<k>"),
        ("features", "likewise, results/features/<m>/seed<k>/<cohort>"),
        ("pixels", "likewise, results/pixels/<cohort>/<geometry>"),
    ):
        wanted = name in ("results", "models")
        arguments.add_argument(
            f"--{name}", type=Path, nargs="+", default=[], required=wanted, help=said
        )
    arguments.add_argument(
        "--output", type=Path, required=True, help="picture to write, a JSON beside it"
    )
    options = arguments.parse_args(argv)
    kind, reads = KINDS[options.kind]
    for name in ("models", reads):
        if len(getattr(options, name)) != len(options.results):
            arguments.error(f"{options.kind} needs as many --{name} as --results")
    settings = read_settings(options.settings, kind)
    module = importlib.import_module(f"cxrflow.benchmarks.{settings.PROGRAM}")
    png, content = module.draw(options, settings)
    shown = {"kind": settings.kind, "title": settings.title, **content}
    write_picture(options.output, png, shown)


if __name__ == "__main__":
    run(main)
