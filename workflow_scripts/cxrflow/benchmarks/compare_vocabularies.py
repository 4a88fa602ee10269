"""Compare vocabularies on report text (BioViL Tables 1 and 3)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.benchmarks.language.settings import VocabularyComparisonSettings
from cxrflow.command import parser, read_settings, run


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--vocabulary", nargs="+", required=True, metavar="NAME=DIR", help="tokenizer folders"
    )
    arguments.add_argument("--cohort", type=Path, required=True, help="results/cohorts/<pairs>")
    arguments.add_argument("--task", help="name of the task (default: the benchmark's)")
    arguments.add_argument("--output", type=Path, required=True, help="result folder")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, VocabularyComparisonSettings)

    from cxrflow.benchmarks.language.vocabulary import score

    result = score(options, settings)
    result.write(options.output, model="vocabulary", seed=0, task=options.task)


if __name__ == "__main__":
    run(main)
