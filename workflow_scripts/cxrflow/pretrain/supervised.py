"""Train the image encoder on images and their classes or findings.

On classes, as for the ImageNet weights from which ConVIRT's image encoders start (its Appendix A).
On findings, from an encoder that is already trained: the upper bound in its Table 2. The model
folder holds the trunk alone: the classifier is dropped, and joint training adds the joint
projection.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxrflow.pretrain.arguments import Prepared, run_training, training_parser
from cxrflow.pretrain.settings import SupervisedSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_supervised``."""
    arguments = training_parser(__doc__)
    arguments.add_argument("--pixels", type=Path, required=True, help="pixel store")
    arguments.add_argument("--image", type=Path, help="image model folder to start from")
    run_training("supervised", arguments.parse_args(argv), prepare)


def prepare(options: Namespace, settings: SupervisedSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program; ``--pairs`` is the samples.parquet of the cohort."""
    import torch

    from cxrflow.files.atomic import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_classes import LabelledSamples
    from cxrflow.pretrain.inputs import model_fingerprint
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages
    from cxrflow.pretrain.starts import start_image
    from cxrflow.pretrain.two_views import TwoViewsProgram

    table = LabelledSamples(options.pairs, settings.training_share)
    store = PixelStore(options.pixels)
    images, samples = {}, {}
    for name in ("train", "validate"):
        frame = table.split(name, (), store, settings.max_dropped_share)
        images[name] = SplitImages(store, frame, run.device)
        samples[name] = table.labelled(frame, settings.terms.findings)
    trunk = None
    if options.image is not None:
        with torch.random.fork_rng(devices=[]):  # the heads' weights do not depend on the start
            trunk = start_image(options.image, settings.encoder).encoder
    program = TwoViewsProgram(settings, run, samples, images, trunk)
    data = {
        **table.describe(),
        "image": model_fingerprint(None if options.image is None else options.image / "image"),
        "geometry": str(store.geometry),
        "pixels": file_digest(options.pixels / "store.json")[:16],
        "train_samples": len(samples["train"]),
        "validation_samples": len(samples["validate"]),
    }
    return Prepared(program, data, ("a smaller training.batch_size", SMALLER_IMAGES))


if __name__ == "__main__":
    run(main)
