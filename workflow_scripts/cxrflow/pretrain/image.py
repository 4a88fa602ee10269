"""Pretrain the image encoder with SimCLR (BioViL section 2.2 and Appendix E.2).

Two augmented views of every training image; LARS on top of Adam. The model folder holds the trunk
alone: the SimCLR head is dropped, the joint projection comes with joint training.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxrflow.command import run
from cxrflow.pretrain.arguments import start, training_parser
from cxrflow.pretrain.settings import ImagePretrainingSettings

if TYPE_CHECKING:
    from cxrflow.training.processes import Processes


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m cxrflow.pretrain.image``."""
    arguments = training_parser(__doc__)
    arguments.add_argument("--pixels", type=Path, required=True, help="pixel store")
    given = arguments.parse_args(argv)
    start(given, ImagePretrainingSettings, run_training)


def run_training(
    given: Namespace, settings: ImagePretrainingSettings, processes: "Processes"
) -> None:
    """The share of one of ``processes`` in the training."""
    from cxrflow.files import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.inputs import Pairs, seeded
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES
    from cxrflow.pretrain.two_views import TwoViewsProgram
    from cxrflow.training.engine import Engine
    from cxrflow.training.precision import choose_device

    pairs, store = Pairs(given.pairs), PixelStore(given.pixels)
    train, validation = (
        pairs.split(name, (), store, settings.max_dropped_share) for name in ("train", "validate")
    )
    seeded(given.seed)
    device = choose_device(settings.training.device)
    program = TwoViewsProgram(settings, store, train, validation, given.seed, device, processes)
    remedies = ("a smaller training.batch_size", SMALLER_IMAGES)
    identity = {
        "model": given.model,
        "program": "image",
        "seed": given.seed,
        "settings": settings.model_dump(mode="json"),
        "data": {
            **pairs.describe(),
            "geometry": str(store.geometry),
            "pixels": file_digest(Path(given.pixels) / "store.json")[:16],
            "train_samples": len(train),
            "validation_samples": len(validation),
        },
    }
    engine = Engine(program, settings.training, given.seed, identity, remedies, processes)
    engine.run(given.state, given.output)


if __name__ == "__main__":
    run(main)
