"""Draw what several models see in the same images, as heat maps (BioViL Figures 3 and A.1)."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings
from cxrflow.command import parser, read_settings, run


def picture_parser(document: str | None) -> argparse.ArgumentParser:
    """The options of every program that draws patients: where they are, and what may be shown."""
    arguments = parser(document)
    arguments.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<cohort>")
    arguments.add_argument(
        "--pixels", type=Path, required=True, help="results/pixels/<cohort>/<geometry>"
    )
    arguments.add_argument(
        "--phrases",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="print the phrases, which are report text",
    )
    arguments.add_argument(
        "--output", type=Path, required=True, help="picture to write, a JSON beside it"
    )
    return arguments


def main(argv: Sequence[str] | None = None) -> None:
    arguments = picture_parser(__doc__)
    arguments.add_argument(
        "--results", type=Path, nargs="+", required=True, help="one folder a model"
    )
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, GroundingFigureSettings)

    from cxrflow.benchmarks.grounding.comparison import draw

    draw(options, settings)


if __name__ == "__main__":
    run(main)
