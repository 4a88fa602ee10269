"""Find the named entities of report sentences (docs/labels.md)."""

from collections.abc import Sequence
from pathlib import Path

from cxrflow.command import parser, read_settings, run, thread_count
from cxrflow.reports.entities.settings import EntitySettings


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    arguments = parser(__doc__)
    arguments.add_argument("--corpus", type=Path, required=True, help="results/corpus/<dataset>")
    arguments.add_argument("--stanza", type=Path, required=True, help="folder of stanza's models")
    arguments.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    arguments.add_argument("--output", type=Path, required=True, help="entities.parquet")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, EntitySettings)

    from cxrflow.reports.entities.extract import extract

    extract(options.corpus, options.stanza, options.output, settings, options.threads)


if __name__ == "__main__":
    run(main)
