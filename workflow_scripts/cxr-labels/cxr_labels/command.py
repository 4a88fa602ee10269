"""Label reports with the 14 CheXpert observations.

--input is a table with columns of text (.csv, .tsv, .parquet; - for standard input) or a folder of
.txt files. (For a data set, cxrflow process_reports writes the same labels.) Headings may have any
form. In a text with headings, the sections named by the setting labels.text are labelled (by
default findings and impression); a text without headings is labelled as a whole.

--output (.csv or .parquet) has one row per report, in the order of the input: the id (--id-column;
for files the path), or without one the row's number from 0 and the table's other columns, except
those with report text. Then the observations in CheXpert's order: 1.0 positive, 0.0 negative, -1.0
uncertain, blank not mentioned; the outcome; and the number of unread words, where they alone
withhold No Finding (--reasons shows them). A report that has no sentence, cannot be read or is not
English gets 14 blanks and is counted in <output>.json (the published labeller gives an empty text
No Finding = 1). No text is written unless --with-text is given. The result does not depend on
--threads.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxr_files.atomic import read_object
from cxr_files.errors import InputError
from cxr_files.outputs import require_writable
from cxr_files.program import parser, run, thread_count
from cxr_files.settings import read_settings
from cxr_labels.settings import ReportSettings


def _check_outputs(args: Any) -> None:
    if args.output.suffix not in (".csv", ".parquet"):
        raise InputError(f"--output {args.output}: expected a name ending in .csv or .parquet")
    if args.reasons is not None and args.reasons.suffix != ".parquet":
        raise InputError(f"--reasons {args.reasons}: expected a name ending in .parquet")
    if args.with_text and args.reasons is None:
        raise InputError("--with-text: nothing to add texts to without --reasons")
    summary = args.output.with_name(f"{args.output.name}.json")
    for path in (args.output, args.reasons):
        if path is not None and path.exists() and not summary.is_file():
            raise InputError(
                f"{path}: was not written by an earlier run, which would have left {summary.name} "
                "beside the labels; name another file, or delete this one yourself"
            )
        if path is not None:
            require_writable(path)
    if summary.is_file() and not args.output.exists() and not _is_summary(summary):
        raise InputError(
            f"{summary}: was not written by an earlier run, but labels would be counted there; "
            "name another --output"
        )


def _is_summary(path: Path) -> bool:
    """True for what a labelling writes beside its labels."""
    try:
        return {"outcomes", "labels"} <= read_object(path).keys()
    except InputError:
        return False


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    options = parser(__doc__)
    options.add_argument(
        "--input",
        type=Path,
        required=True,
        help="table (CSV, Parquet), .txt file or folder of them; - reads a CSV from standard input",
    )
    options.add_path("--output", "file to write, .csv or .parquet")
    options.add_argument(
        "--text-column",
        action="append",
        default=[],
        help="column of report text; repeat the option for several (default: found by their names)",
    )
    options.add_argument(
        "--id-column", help="column of report ids (default: the row's number and all other columns)"
    )
    options.add_argument("--stanza", type=Path, help="stanza's models, for splitter: stanza")
    options.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    options.add_argument(
        "--reasons", type=Path, help="also write this .parquet, one row for each assertion found"
    )
    options.add_argument(
        "--with-text",
        action="store_true",
        help="put phrase and sentence into --reasons (report text)",
    )
    args = options.parse_args(argv)
    _check_outputs(args)
    settings = read_settings(args.settings, ReportSettings)

    from cxr_labels.label_sources import find_source
    from cxr_labels.labelled_tables import label_reports

    source = find_source(args.input, args.text_column, args.id_column)
    label_reports(
        source,
        args.output,
        settings,
        args.stanza,
        args.threads,
        args.reasons,
        args.with_text,
    )


def command() -> None:
    """The console script."""
    run(main)


if __name__ == "__main__":
    run(main)
