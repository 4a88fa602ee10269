"""Joint training on images with their priors (BioViL-T section 3).

Global and local alignment of images with their IMPRESSION, and masked words of the report that are
predicted by looking at the image. Starts from a text model folder and, if given, from an image
model folder. The model folder it writes holds both encoders and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_temporal``."""
    run_training("temporal", __doc__, argv, prepare)


def prepare(options: Namespace, settings: Any, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.pretrain.image_starts import start_trunk
    from cxrflow.pretrain.pairs.images_with_priors import FrameTextProgram, frame_texts
    from cxrflow.pretrain.pairs.preparation import PairMethod, prepare_pairs
    from cxrflow.pretrain.pairs.tables import PriorTable

    method = PairMethod(PriorTable, FrameTextProgram, frame_texts, start_trunk)
    return prepare_pairs(options, settings, run, method)


if __name__ == "__main__":
    run(main)
