"""Pretrain the image encoder on images alone (BioViL section 2.2 and Appendix E.2).

Two augmented views of every training image are compared by SimCLR or momentum contrast. The model
folder holds the trunk alone: heads are dropped, and joint training adds the joint projection.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxrflow.pretrain.arguments import Prepared, run_training, training_parser
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_image``."""
    arguments = training_parser(__doc__)
    arguments.add_argument("--pixels", type=Path, required=True, help="pixel store")
    options = arguments.parse_args(argv)
    run_training("image", options, prepare)


def prepare(options: Namespace, settings: ImagePretrainingSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.files.atomic import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.inputs import Pairs
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages
    from cxrflow.pretrain.two_views import TwoViewsProgram

    pairs, store = Pairs(options.pairs, settings.training_share), PixelStore(options.pixels)
    images, samples = {}, {}
    for name in ("train", "validate"):
        frame = pairs.split(name, (), store, settings.max_dropped_share)
        images[name] = SplitImages(store, frame, run.device)
        samples[name] = pairs.samples(frame, "image_id")
    program = TwoViewsProgram(settings, run, samples, images)
    data = {
        **pairs.describe(),
        "geometry": str(store.geometry),
        "pixels": file_digest(options.pixels / "store.json")[:16],
        "train_samples": len(samples["train"]),
        "validation_samples": len(samples["validate"]),
    }
    return Prepared(program, data, ("a smaller training.batch_size", SMALLER_IMAGES))


if __name__ == "__main__":
    run(main)
