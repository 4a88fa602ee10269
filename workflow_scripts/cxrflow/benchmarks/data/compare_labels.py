"""Precision, recall, F1 and kappa of our report labels against published ones (docs/labels.md)."""

from collections.abc import Sequence

from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxrflow.benchmarks.data.settings import LabelAgreementSettings


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_path("--corpus", "results/corpus/<dataset>")
    arguments.add_path("--labels", "table of given labels, or the Open-I folder")
    arguments.add_argument("--reference", required=True, help="what the given labels are called")
    arguments.add_path("--output", "result folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, LabelAgreementSettings)

    from cxrflow.benchmarks.data.label_agreement import compare_labels

    compare_labels(options, settings)


if __name__ == "__main__":
    run(main)
