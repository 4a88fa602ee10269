"""Pretrain the image encoder on images alone (BioViL section 2.2 and Appendix E.2).

Two augmented views of every training image are compared by SimCLR or momentum contrast. The trunk
is new, or starts from another model's (Windsor et al. 2023, section 2). The model folder holds the
trunk alone: heads are dropped, and joint training adds the joint projection.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import ImagePretrainingSettings

if TYPE_CHECKING:
    import pandas as pd

    from cxrflow.pretrain.inputs import Pairs, Run
    from cxrflow.training.samples import SampleTable


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_image``."""
    run_training("image", __doc__, argv, prepare)


def prepare(options: Namespace, settings: ImagePretrainingSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.pretrain.inputs import Pairs

    pairs = Pairs(options.pairs, settings.share(run.seed))
    return prepare_images(
        pairs, options, settings, run, lambda rows: pairs.samples(rows, "image_id")
    )


def prepare_images(
    pairs: "Pairs",
    options: Namespace,
    settings: ImagePretrainingSettings,
    run: "Run",
    samples_of: "Callable[[pd.DataFrame], SampleTable]",
) -> Prepared:
    """Make the program of the images of a cohort; ``samples_of`` makes samples of its rows.

    The trunk is new, or that of the model in the folder ``options.image``.
    """
    import torch

    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_starts import require_loadable, start_image
    from cxrflow.pretrain.inputs import images_record, model_fingerprint
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages
    from cxrflow.pretrain.two_views import TwoViewsProgram

    require_loadable(settings.encoder)
    trunk, data = None, {}
    if options.image is not None:
        with torch.random.fork_rng(devices=[]):  # the heads' weights are the same for every start
            trunk = start_image(options.image, settings.encoder).encoder
        data = {"image": model_fingerprint(options.image / "image")}
    store, images, samples = PixelStore(options.pixels), {}, {}
    for split in ("train", "validate"):
        rows = pairs.split(split, (), store, settings.max_dropped_share)
        images[split], samples[split] = SplitImages(store, rows, run.device), samples_of(rows)
    program = TwoViewsProgram(settings, run, samples, images, trunk)
    memory_advice = ("a smaller training.batch_size", SMALLER_IMAGES)
    return Prepared(program, images_record(pairs, store, samples) | data, memory_advice)


if __name__ == "__main__":
    run(main)
