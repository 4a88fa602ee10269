"""Train the image encoder on images and their classes or findings.

On classes, as for the ImageNet weights from which ConVIRT's image encoders start (its Appendix A).
On findings, from an encoder that is already trained: the upper bound in its Table 2. The model
folder holds the trunk alone: the classifier is dropped, and joint training adds the joint
projection.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.image import prepare_images
from cxrflow.pretrain.settings import SupervisedSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_supervised``."""
    run_training("supervised", __doc__, argv, prepare)


def prepare(options: Namespace, settings: SupervisedSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program; ``--pairs`` is the samples.parquet of the cohort."""
    from cxrflow.pretrain.image_classes import LabelledSamples

    table = LabelledSamples(options.pairs, settings.share(run.seed))
    return prepare_images(
        table, options, settings, run, lambda rows: table.labelled(rows, settings.terms.findings)
    )


if __name__ == "__main__":
    run(main)
