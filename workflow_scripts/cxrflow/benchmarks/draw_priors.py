"""A patient's two images, and a phrase's map with the prior and without it (BioViL-T, Table 5)."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.grounding.settings import PriorFigureSettings
from cxrflow.command import parser, read_settings, run


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--beside", type=Path, required=True, help="a model's result of images with their priors"
    )
    arguments.add_argument(
        "--alone", type=Path, required=True, help="its result of the current images alone"
    )
    arguments.add_argument("--cohort", type=Path, required=True, help="that with the priors")
    arguments.add_argument("--pixels", type=Path, required=True, help="results/pixels/<cohort>/<g>")
    arguments.add_argument(
        "--phrases",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="print the phrases, which are report text",
    )
    arguments.add_argument(
        "--output", type=Path, required=True, help="the picture; its JSON lies beside"
    )
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, PriorFigureSettings)

    from cxrflow.benchmarks.grounding.with_prior import draw

    draw(options, settings)


if __name__ == "__main__":
    run(main)
