"""Joint image-text training of BioViL (section 2.2): L_joint = lambda_GA L_GA + L_MLM.

ConVIRT, GLoRIA and BioViL-L (Table 5) are other settings of it (docs/joint_training.md).

Starts from a text model folder and, if given, from a SimCLR folder. The model folder it writes
holds both encoders and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_joint``."""
    run_training("joint", __doc__, argv, prepare)


def prepare(options: Namespace, settings: Any, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.pretrain.pairs.preparation import PairMethod, prepare_pairs

    return prepare_pairs(options, settings, run, PairMethod())


if __name__ == "__main__":
    run(main)
