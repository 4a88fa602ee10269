"""Say what data sets share and what is damaged in them, before anything is trained.

    cxrflow audit /data/chexpert mine:hospital=/data/own images.csv --output audit

Each is a data set as published, a folder of images, or a list: a CSV with `path`, and `image`,
`patient` and `part` where they are known. Patients and images are compared by their ids, pictures
by what they show, whatever their format, size and names (docs/data.md).

Written are `audit.json`, `pictures.csv` (each image whose picture is there twice) and `index.html`.
They name ids and paths; the page shows pictures only with --pictures.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cxr_files.atomic import atomic_folder, write_json
from cxr_files.formulas import inert
from cxr_files.program import parser, run, thread_count

if TYPE_CHECKING:
    from cxrflow.commands.audit.findings import Finding

log = logging.getLogger("cxrflow")

COLUMNS = ("picture", "set", "part", "patient", "image", "path")


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, look at all images, and write the account."""
    arguments = parser(__doc__, settings=False)
    arguments.add_argument(
        "sets",
        nargs="+",
        metavar="SET",
        help="FOLDER, LIST.csv, or [NAME:]LAYOUT[@IDS]=FOLDER; @chexpert: numbered as CheXpert's",
    )
    arguments.add_argument("--threads", type=thread_count, default=1, help="decoding processes")
    arguments.add_argument(
        "--pictures", action="store_true", help="show the pictures on the page, and not ids alone"
    )
    arguments.add_path("--output", "folder to write")
    options = arguments.parse_args(argv)

    from cxrflow.commands.audit.findings import findings
    from cxrflow.commands.audit.page import page
    from cxrflow.commands.audit.pictures import with_pictures
    from cxrflow.commands.audit.sets import read_sets

    sets = read_sets(options.sets)
    rows = with_pictures(sets, options.threads)
    account = findings(sets, rows)
    usable = rows[rows["picture"] >= 0]
    again = usable[usable.groupby("picture")["image"].transform("size") > 1].sort_values("picture")
    sizes = {each.name: len(each.images) for each in sets}
    with atomic_folder(options.output, "audit") as folder:
        write_json(
            folder / "audit.json", {"sets": sizes, "findings": [f.as_json() for f in account]}
        )
        table = again[list(COLUMNS)].astype("str").apply(inert)
        table.to_csv(folder / "pictures.csv", index=False)
        roots = {each.name: each.root for each in sets} if options.pictures else {}
        (folder / "index.html").write_text(page(sizes, account, again, roots), encoding="utf-8")
    print(text(sizes, account))
    log.info("%s: %d findings", options.output, len(account))


def text(sizes: dict[str, int], account: "Sequence[Finding]") -> str:
    """The findings for a terminal, set by set and then by two."""
    lines = [f"{name}: {size:,} images" for name, size in sizes.items()]
    head: tuple[str, ...] = ()
    for finding in account:
        if finding.sets != head:
            lines += ["", " and ".join(finding.sets)]
            head = finding.sets
        by_part = ", ".join(f"{part} {count:,}" for part, count in finding.parts.items())
        examples = f", e.g. {', '.join(finding.examples[:2])}" if finding.examples else ""
        where = f" ({by_part})" if by_part else ""
        lines.append(f"  {finding.count:,} of {finding.of:,} {finding.what}{where}{examples}")
    return "\n".join(
        lines if account else [*lines, "", "nothing is shared, and nothing is damaged"]
    )


if __name__ == "__main__":
    run(main)
