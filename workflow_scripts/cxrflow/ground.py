"""Ground phrases in one radiograph, from the command line or from Python (docs/grounding.md).

    python -m cxrflow.ground --model results/models/biovil/biovil/seed0 --image x.dcm \\
        --phrase "Left pleural effusion" --output heat.png

``cxrflow.ground.ground(model, image, phrases)`` gives the maps themselves, and the picture.
"""

from collections.abc import Sequence

from cxrflow.benchmarks.grounding import one_image
from cxrflow.benchmarks.grounding.one_image import Grounding, Peak, ground
from cxrflow.command import run

__all__ = ["Grounding", "Peak", "ground"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    one_image.main(argv)


if __name__ == "__main__":
    run(main)
