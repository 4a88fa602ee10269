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

from cxrflow.pretrain.arguments import start, train, training_parser
from cxrflow.pretrain.settings import SupervisedSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_supervised``."""
    arguments = training_parser(__doc__)
    arguments.add_argument("--pixels", type=Path, required=True, help="pixel store")
    arguments.add_argument("--image", type=Path, help="image model folder to start from")
    start(arguments.parse_args(argv), SupervisedSettings, run_training)


def run_training(given: Namespace, settings: SupervisedSettings, run: "Run") -> None:
    """This process's share of the training; ``--pairs`` is the samples.parquet of the cohort."""
    import torch

    from cxrflow.files.atomic import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_classes import Samples, SupervisedProgram
    from cxrflow.pretrain.image_text_pairs import start_image
    from cxrflow.pretrain.inputs import model_fingerprint
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages

    samples, store = Samples(given.pairs), PixelStore(given.pixels)
    splits = {
        name: samples.split(name, (), store, settings.max_dropped_share)
        for name in ("train", "validate")
    }
    images = {name: SplitImages(store, split, run.device) for name, split in splits.items()}
    findings = settings.terms.findings
    labels = {
        name: samples.class_of(split) if findings is None else samples.labels_of(split, findings)
        for name, split in splits.items()
    }
    ids = splits["train"]["image_id"].tolist()
    trunk = None
    if given.image is not None:
        with torch.random.fork_rng(devices=[]):  # the heads' weights do not depend on the start
            trunk = start_image(given.image, settings.encoder).encoder
    program = SupervisedProgram(settings, run, ids, images, labels, len(samples.classes), trunk)
    data = {
        **samples.describe(),
        "image": model_fingerprint(None if given.image is None else given.image / "image"),
        "geometry": str(store.geometry),
        "pixels": file_digest(given.pixels / "store.json")[:16],
        "train_samples": len(splits["train"]),
        "validation_samples": len(splits["validate"]),
    }
    train(given, program, "supervised", data, ("a smaller training.batch_size", SMALLER_IMAGES))


if __name__ == "__main__":
    run(main)
