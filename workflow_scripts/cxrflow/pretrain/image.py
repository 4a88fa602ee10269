"""Pretrain the image encoder on images alone (BioViL section 2.2 and Appendix E.2).

Two augmented views of every training image are compared by SimCLR or momentum contrast. The model
folder holds the trunk alone: heads are dropped, and joint training adds the joint projection.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from cxrflow.pretrain.inputs import Pairs, Run
    from cxrflow.training.samples import SampleTable


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_image``."""
    run_training("image", __doc__, argv, prepare)


def prepare(options: Namespace, settings: ImagePretrainingSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.pretrain.inputs import Pairs

    pairs = Pairs(options.pairs, settings.training_share)
    return prepare_images(
        pairs, options.pixels, settings, run, lambda rows: pairs.samples(rows, "image_id")
    )


def prepare_images(
    pairs: "Pairs",
    pixels: Path,
    settings: ImagePretrainingSettings,
    run: "Run",
    samples_of: "Callable[[pd.DataFrame], SampleTable]",
    start: "nn.Module | None" = None,
) -> Prepared:
    """Make the program of the images of a cohort; ``samples_of`` makes samples of its rows."""
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.inputs import images_record
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages
    from cxrflow.pretrain.two_views import TwoViewsProgram

    store, images, samples = PixelStore(pixels), {}, {}
    for split in ("train", "validate"):
        rows = pairs.split(split, (), store, settings.max_dropped_share)
        images[split], samples[split] = SplitImages(store, rows, run.device), samples_of(rows)
    program = TwoViewsProgram(settings, run, samples, images, start)
    remedies = ("a smaller training.batch_size", SMALLER_IMAGES)
    return Prepared(program, images_record(pairs, store, samples), remedies)


if __name__ == "__main__":
    run(main)
