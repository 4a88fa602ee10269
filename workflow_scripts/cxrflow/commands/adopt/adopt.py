"""Turn a hospital's archive into the folder that the trainings read.

    cxrflow adopt /data/export reports.csv --output /data/my_hospital

EXPORT is any tree of DICOM files or of PNG and JPEG pictures. REPORTS is a table (CSV, TSV, XLSX)
or a folder of text files. Studies and reports are matched by accession number, then by study UID,
then by ids in names. You see which column was taken for what and up to ten pairs, and are asked
once before anything is written. Nothing is sent anywhere.

The folder (docs/own_hospital.md) has links to the images; --copy copies them. `adopted.html` and
`adopted.json` say what was matched and what was left out, and why. They hold no text of a report.
"""

import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxr_files.atomic import atomic_path, write_json
from cxr_files.errors import InputError
from cxr_files.formulas import inert
from cxr_files.program import parser, run, thread_count

log = logging.getLogger("cxrflow")
ROLES = ("study", "patient", "date", "text")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, match, show, ask and write."""
    options = _options(argv)
    if options.output.resolve().is_relative_to(options.export.resolve()):
        raise InputError(f"--output {options.output}: lies in the export; expected another place")
    if options.pairs_page is not None:
        for folder in (options.export, options.output):
            if options.pairs_page.resolve().is_relative_to(folder.resolve()):
                raise InputError(
                    f"--pairs-page {options.pairs_page}: lies in {folder}; expected another place"
                )

    from cxr_labels.settings import ReportSettings
    from cxrflow.commands.adopt.archive import read_archive, require_radiographs
    from cxrflow.commands.adopt.columns import propose
    from cxrflow.commands.adopt.contents import read_contents
    from cxrflow.commands.adopt.folder import look_at_images, write_folder
    from cxrflow.commands.adopt.matching import date_studies, match, require_matched
    from cxrflow.commands.adopt.new_ids import NewIds, read_key
    from cxrflow.commands.adopt.page import JSON, PAGE, TABLE, account_of, left_out, page
    from cxrflow.commands.adopt.preview import lines_of, pairs_page, preview, some_pairs
    from cxrflow.commands.adopt.report_table import read_reports

    ids = NewIds(read_key(options.key_file) if options.key_file else None)
    table = read_reports(options.reports)
    files = read_archive(options.export, options.reports, options.threads)
    radiographs = require_radiographs(files, options.export)
    chosen = {role: getattr(options, f"{role}_column") for role in ROLES}
    columns = propose(table, radiographs, chosen)
    matching = match(files, table, columns)
    require_matched(matching, table)
    dates = date_studies(matching, table, columns, options.order)
    print("\n".join(preview(files, table, columns, matching)))
    compared, with_text = list(some_pairs(files, table, columns, matching)), not options.no_text
    if sys.stdout.isatty():
        print("", *(line for each in compared for line in lines_of(each, with_text)), "", sep="\n")
    else:
        print("pairs are shown on a terminal alone")
    if options.pairs_page is not None:
        with atomic_path(options.pairs_page) as temporary:
            temporary.touch(mode=0o600)
            words = pairs_page(options.export, compared, with_text)
            temporary.write_text(words, encoding="utf-8")
        print(
            f"{options.pairs_page} shows them with their pictures; delete it when you have looked"
        )
    if not (options.yes or _agreed(options.output, argv)):
        print("nothing is written")
        return
    check = look_at_images(options.export, files, matching.studies, ids, options.threads)
    listed = write_folder(
        options.output, options.export, files, matching.studies, ids, check.aside, options.copy
    )
    contents = read_contents(options.output, ReportSettings(), options.threads)
    lost = left_out(files, table, matching, check.aside, listed)
    account = account_of(table, columns, matching, dates, check.shared, lost, listed, contents)
    account |= {"export": str(options.export), "reports": str(options.reports)}
    account["ids_replaced"] = options.key_file is not None
    if options.key_file is None:
        with atomic_path(options.output / TABLE) as temporary:
            lost.apply(inert).to_csv(temporary, index=False, encoding="utf-8")
    else:
        account["left_out"] = [{**drop, "examples": []} for drop in account["left_out"]]
        account["pictures"] = [{**shared, "examples": []} for shared in account["pictures"]]
    lines = list(contents.lines(examples=options.key_file is None))
    with atomic_path(options.output / PAGE) as temporary:
        temporary.write_text(page(options.output.name, account, lines), encoding="utf-8")
    write_json(options.output / JSON, account)
    with_ids = options.key_file is None and sys.stdout.isatty()
    print("\n".join(contents.lines(examples=with_ids)))
    for row in account["trainings"]:
        print(f"  {row['studies']:,} studies of {row['patients']:,} patients: {row['training']}")
    print(f"{options.output / PAGE} says what was left out and why. Next:")
    folder = shlex.quote(str(options.output.resolve()))
    print(f"  CXR_HOSPITAL={folder} cxrflow config check --configfile hospital.yaml")


def _options(argv: Sequence[str] | None) -> Any:
    arguments = parser(__doc__, settings=False)
    arguments.add_argument("export", type=Path, metavar="EXPORT", help="folder of images, any tree")
    arguments.add_argument(
        "reports", type=Path, metavar="REPORTS", help="CSV, TSV or XLSX, or a folder of .txt files"
    )
    arguments.add_path("--output", "folder to write", Path("my_hospital"))
    arguments.add_argument("--yes", action="store_true", help="write without asking")
    arguments.add_argument("--no-text", action="store_true", help="show pairs without report text")
    arguments.add_argument(
        "--pairs-page",
        type=Path,
        metavar="FILE",
        help="write the pairs with their pictures as a page to look at, for yourself alone",
    )
    arguments.add_argument("--copy", action="store_true", help="copy the images instead of linking")
    for role in ROLES:
        arguments.add_argument(f"--{role}-column", help=f"column of the {role}, instead of ours")
    first = arguments.add_mutually_exclusive_group()
    for order, example in (("day", "13/02/2019"), ("month", "02/13/2019")):
        first.add_argument(
            f"--{order}-first", dest="order", action="store_const", const=order,
            help=f"dates are written as {example}",
        )  # fmt: skip
    arguments.add_argument(
        "--key-file",
        type=Path,
        help="replace ids of studies and patients by their HMAC-SHA256 with the key in this file",
    )
    arguments.add_argument("--threads", type=thread_count, default=1, help="reading processes")
    return arguments.parse_args(argv)


def _agreed(output: Path, argv: Sequence[str] | None) -> bool:
    """Ask once.

    Raises:
        InputError: there is no terminal to ask on.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        words = shlex.join(sys.argv[1:] if argv is None else argv)
        raise InputError(
            f"nothing is written: there is no terminal to ask on; type `cxrflow adopt {words} "
            "--yes` if the above is right"
        )
    try:
        return input(f"Write {output}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D is no yes
        print()
        return False


if __name__ == "__main__":
    run(main)
