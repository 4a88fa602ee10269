"""Ground phrases in one radiograph, from the command line or from Python (docs/grounding.md).

    cxrflow ground --model results/models/biovil/biovil/seed0 --image x.dcm \\
        --phrase "Left pleural effusion" --output heat.png

``ground(cxrflow.load(folder), image, phrases)`` gives the maps themselves, and the picture.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxrflow.benchmarks.grounding.settings import OneImageSettings
from cxrflow.errors import InputError
from cxrflow.programs.program import parser, run
from cxrflow.settings import read_settings

if TYPE_CHECKING:
    from cxrflow.benchmarks.grounding.one_image import Grounding
    from cxrflow.models.model import Model

MODEL = Path("results/models/biovil/biovil/seed0")


def ground(
    model: "Model",
    image: str | Path,
    phrases: Sequence[str],
    settings: OneImageSettings | None = None,
    prior: str | Path | None = None,
) -> "Grounding":
    """Ground phrases in an image.

    See :func:`cxrflow.benchmarks.grounding.one_image.ground`.
    """
    from cxrflow.benchmarks.grounding import one_image

    return one_image.ground(model, image, phrases, settings or OneImageSettings(), prior)


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, ground the phrases and draw the picture."""
    arguments = parser(__doc__)
    arguments.add_path("--model", "model folder", MODEL)
    arguments.add_path("--image", "radiograph (DICOM, PNG or JPEG)")
    arguments.add_argument("--prior", type=Path, help="an earlier radiograph of the patient")
    arguments.add_argument(
        "--phrase",
        action="append",
        required=True,
        help="phrase to ground; repeat the option for more",
    )
    arguments.add_path("--output", "picture to write", Path("grounding.png"))
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, OneImageSettings)
    if options.output.suffix.lower() != ".png":
        raise InputError(f"--output is {options.output}, expected a name that ends in .png")
    # Exports in the released layout have an image half of another name.
    if options.model.is_dir() and not any(options.model.glob("*.pt")):
        for name in ("config.json", "image/config.json"):
            if not (options.model / name).is_file():
                raise InputError(
                    f"{options.model}: {name} is missing; expected a model with both halves, such "
                    f"as {MODEL}"
                )

    from cxrflow.benchmarks.grounding.one_image import draw
    from cxrflow.text.characters import normalised

    phrases = list(map(normalised, options.phrase))
    draw(options.model, options.image, phrases, options.output, settings, options.prior)


if __name__ == "__main__":
    run(main)
