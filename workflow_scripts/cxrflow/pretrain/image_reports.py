"""Joint training on images and their whole reports, cleaned (MGCA; base model of MedCutMix).

Starts from a text model folder and, if given, from an image model folder; both projections are new.
The model folder it writes holds both encoders and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_image_reports``."""
    run_training("image_reports", __doc__, argv, prepare)


def prepare(options: Namespace, settings: Any, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.pretrain.pairs.preparation import PairMethod, prepare_pairs
    from cxrflow.pretrain.pairs.whole_reports import ImageReportProgram, ReportTable, report_texts

    method = PairMethod(ReportTable, ImageReportProgram, report_texts, new_projection=True)
    return prepare_pairs(options, settings, run, method)


if __name__ == "__main__":
    run(main)
