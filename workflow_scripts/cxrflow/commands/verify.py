"""Recompute a results folder, or compare a data set's files with its publisher's checksums.

    cxrflow verify results/
    cxrflow verify --root /data/mimic-cxr/2.1.0 --threads 8 --share 0.01

Of results every file is compared with its ``SHA256SUMS``, scores and tests are computed again from
predictions, and the tables from these; the first product that differs is named. No data set, model
or GPU is needed. It ends with the root, one digest of all of them.

PhysioNet ships checksums (``SHA256SUMS.txt``) with MIMIC-CXR and other sets. Files that were not
downloaded are counted. Each file that differs or cannot be read is named, in a line of the log, and
the exit code is 2.
"""

import logging
import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cxr_files.atomic import file_digest
from cxr_files.csv_table import read_lines, require_file, require_root
from cxr_files.drops import Tally, printable
from cxr_files.errors import InputError
from cxr_files.program import parser, run, seed_number, thread_count
from cxr_files.progress import progress
from cxr_files.reading import below, leads_out

log = logging.getLogger("cxrflow")

LISTS = ("SHA256SUMS.txt", "SHA256SUMS")
LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(\S.*)")
ABSENT, DIFFERENT = "not there", "other content than published"


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, compare the files and print the counts."""
    arguments = parser(__doc__, settings=False)
    arguments.add_argument("results", type=Path, nargs="?", help="folder of a finished run")
    arguments.add_argument("--root", type=Path, help="folder with SHA256SUMS.txt")
    arguments.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="share of the files that are read, drawn at random, in (0, 1]",
    )
    arguments.add_argument("--seed", type=seed_number, default=0, help="of which files are drawn")
    arguments.add_argument("--threads", type=thread_count, default=1, help="files read at once")
    options = arguments.parse_args(argv)
    if (options.results is None) == (options.root is None):
        arguments.error("expected a folder of results, or --root of a data set")
    if options.results is not None:
        from cxrflow.commands.verify_results import verify_results

        for line in verify_results(require_root(options.results), options.threads):
            print(f"{options.results}: {line}")
        return
    if not 0 < options.share <= 1:
        raise InputError(f"--share is {options.share}; expected more than 0 and at most 1")
    tally = verify(options.root, options.share, options.seed, options.threads)
    absent = sum(drop.count for drop in tally.drops if drop.reason == ABSENT)
    print(f"{options.root}: {tally.kept} files are as published, {absent} are not there")


def published(root: Path) -> dict[str, str]:
    """Return the published SHA-256 of each file, by its path below the root."""
    path = require_file(require_root(root), *LISTS)
    sums: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        match = LINE.fullmatch(line.rstrip())
        if match is None or leads_out(match[2]):
            raise InputError(f"{path}:{number}: expected a SHA-256 and a path, as published")
        sums[match[2]] = match[1].lower()
    if not sums:
        raise InputError(f"{path}: lists no file")
    return sums


def verify(root: Path, share: float = 1, seed: int = 0, threads: int = 1) -> Tally:
    """Compare the files, or a share of them, with the checksums; count those that agree.

    The log names each that differs or cannot be read, and says how many were read.

    Raises:
        InputError: a file differs, or none of those listed is there.
    """
    sums = published(root)
    count = max(1, round(share * len(sums)))
    # Sorted before the draw, which must not depend on the order of the list, and after it, since
    # reading folder by folder is faster.
    chosen = sorted(random.Random(seed).sample(sorted(sums), count))
    tally = Tally("files compared", "files")

    def outcome(name: str) -> str | None:
        try:
            return None if file_digest(below(root, name)) == sums[name] else DIFFERENT
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            return f"cannot be read ({error.strerror})"

    with ThreadPoolExecutor(threads) as pool:
        outcomes = ([pair] for pair in zip(chosen, pool.map(outcome, chosen), strict=True))
        for ((name, reason),) in progress(outcomes, count, "file", title="comparing"):
            if reason is None:
                tally.kept += 1
                continue
            if reason != ABSENT:
                log.warning("%s: %s", root / printable(name), reason)
            tally.drop(reason, [name], failed=reason != ABSENT)
    differing = sum(drop.count for drop in tally.drops if drop.reason == DIFFERENT)
    log.info("%s: %d of %d listed files read", root, tally.kept + differing, len(sums))
    tally.require_few(root, 0, "this program")
    if not tally.kept:
        raise InputError(f"{root}: of {count} listed files none is there")
    return tally


if __name__ == "__main__":
    run(main)
