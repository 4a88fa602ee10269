"""Joint training on studies: one image and one sentence of each (ConVIRT section 3, Appendix A).

For ConVIRT and its baseline Contrastive-Binary-Loss (section 4.3). Starts from a text model
folder and, if given, an image model folder. The model folder it writes holds both encoders and
loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_studies``."""
    run_training("studies", __doc__, argv, prepare)


def prepare(options: Namespace, settings: Any, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.pretrain.pairs.preparation import PairMethod, prepare_pairs
    from cxrflow.pretrain.pairs.tables import StudyTable

    return prepare_pairs(options, settings, run, PairMethod(StudyTable, new_projection=True))


if __name__ == "__main__":
    run(main)
