"""Ground phrases in one radiograph, from the command line or from Python (docs/grounding.md).

    cxrflow ground --model results/models/biovil/biovil/seed0 --image x.dcm \\
        --phrase "Left pleural effusion" --output heat.png

``ground(cxrflow.load(folder), image, phrases)`` gives the maps themselves, and the picture.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.grounding.settings import OneImageSettings

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


def _require_halves(model: Path) -> None:
    """Say before anything is loaded which half a model folder lacks, of ours or published."""
    from cxrflow.encoders.released.published import is_released, kind_of
    from cxrflow.encoders.released.settings import PUBLISHED

    if is_released(model):
        kind = kind_of(model, None)
        for encoder in ("text", "image"):
            if encoder not in PUBLISHED[kind].encoders:
                raise InputError(
                    f"{model}: published weights of kind {kind} have no {encoder} encoder; "
                    "expected both"
                )
        return
    for name in ("config.json", "image/config.json"):
        if not (model / name).is_file():
            raise InputError(
                f"{model}: {name} is missing; expected a model with both encoders, such as {MODEL}"
            )


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
    if options.model.is_dir():
        _require_halves(options.model)

    from cxr_labels.characters import normalised
    from cxrflow.benchmarks.grounding.one_image import draw

    phrases = list(map(normalised, options.phrase))
    draw(options.model, options.image, phrases, options.output, settings, options.prior)


if __name__ == "__main__":
    run(main)
