"""Draw a patient's two images and a phrase's map, with and without the prior (BioViL-T Table 5)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.draw_grounding import picture_parser
from cxrflow.benchmarks.grounding.settings import PriorFigureSettings
from cxrflow.command import read_settings, run


def main(argv: Sequence[str] | None = None) -> None:
    arguments = picture_parser(__doc__)
    arguments.add_argument(
        "--beside", type=Path, required=True, help="a model's result of images with their priors"
    )
    arguments.add_argument(
        "--alone", type=Path, required=True, help="its result of the current images alone"
    )
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, PriorFigureSettings)

    from cxrflow.benchmarks.grounding.with_prior import draw

    draw(options, settings)


if __name__ == "__main__":
    run(main)
