"""Write down a finished run: its tables, what it says of the papers' claims, and how it was made.

    cxrflow record --results results/study --output docs/results/study

The folder holds `run.json` (commit, configuration, seconds by rule), and of each paper the tables
of the run's extent as CSV and `orderings.csv`, a line a comparison (docs/inference.md). It is small
enough for git and holds no image, text or name of a sample. `make results` shows it.
"""

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from cxr_files.atomic import (
    CHECKSUMS,
    atomic_folder,
    read_checksums,
    read_object,
    require_whole,
    write_json,
)
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxrflow.config.cost import timed_jobs
from cxrflow.papers.table import HEADLINE
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.tables.orderings import compare, orderings_csv
from cxrflow.show.tables.tests import read_tests
from cxrflow.show.tables.text import csv_lines
from cxrflow.show.tables.verdicts import Comparison, read_comparisons

SCHEMA = 1
TABLE_COLUMNS = ("row", "column", "ours", "low", "high", "published")
PRODUCT = "record"
FILE, ORDERINGS = "run.json", "orderings.csv"
FIELDS = {
    **{"schema": int, "commit": str, "date": str, "configuration": list, "scale": str},
    **{"extent": str, "seeds": dict, "synthetic": list, "real": list, "seconds": dict},
}


@dataclass(frozen=True)
class Record:
    """A recorded run."""

    folder: Path
    run: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def papers(self) -> list[str]:
        """The papers whose tables it holds."""
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

    def comparisons(self, paper: str) -> list[Comparison]:
        """What it says of a paper's claims; nothing where it has no part of it."""
        path = self.folder / paper / ORDERINGS
        return read_comparisons(path) if path.is_file() else []

    def table(self, paper: str, table: str) -> list[dict[str, str]]:
        """The lines of a table. Raises InputError where it holds no such table."""
        path = self.folder / paper / f"{table}.csv"
        if not path.is_file():
            raise InputError(f"{path}: file not found; the run has no such table")
        return [line for _, line in csv_lines(path, TABLE_COLUMNS)]


def read_record(folder: Path) -> Record:
    """Read a recorded run.

    Raises:
        InputError: it is damaged, of another schema, or not as it was recorded (``SHA256SUMS``).
    """
    for name in read_checksums(folder) if (folder / CHECKSUMS).is_file() else ():
        require_whole(folder / name)
    path = folder / FILE
    content = read_object(path, {"schema": int})
    if content["schema"] != SCHEMA:
        raise InputError(
            f"{path}: schema is {content['schema']}; expected {SCHEMA}: record the run again"
        )
    return Record(folder, read_object(path, FIELDS))


def read_records(folder: Path) -> list[Record]:
    """All runs below a folder: more seeds first, of equal ones the one whose name comes last."""
    written = sorted(folder.glob(f"[!.]*/{FILE}"))  # no hidden one, which a kill cut off
    records = [read_record(path.parent) for path in written]
    return sorted(reversed(records), key=lambda r: -max(r.run["seeds"].values(), default=0))


def record(results: Path, output: Path, config: Path | None = None) -> Path:
    """Write down the run in a folder of results; returns the folder of the record.

    Raises:
        InputError: a table of the run is missing, or the checkout has changes that no commit holds.
    """
    with atomic_folder(output, PRODUCT) as staged:
        _fill(staged, results, config or results / "report/config.json")
    return output


def _fill(staged: Path, results: Path, config: Path) -> None:
    folder = RunFolder.read(config, results)
    commit = _commit()
    synthetic: set[str] = set()
    real: set[str] = set()
    seeds: dict[str, int] = {}
    for paper, extent in folder.papers.items():
        (staged / paper).mkdir(parents=True)
        chosen = folder.config.results[paper]
        tables = chosen.tables(extent)
        for table in tables:
            source = results / "tables" / paper / f"{table}.csv"
            if not source.is_file():
                raise InputError(f"{source}: file not found; finish the run before it is recorded")
            shutil.copyfile(source, staged / paper / f"{table.removeprefix(HEADLINE)}.csv")
        scores = folder.results(paper)
        for runs in scores.runs.values():
            for scored in runs:
                data = scored["data"]
                (synthetic if data["synthetic"] else real).add(str(data["name"]))
        tests = [results / "tables" / paper / f"{table}.tests.json" for table in tables]
        read = read_tests([path for path in tests if path.is_file()])
        text = orderings_csv(compare(chosen.paper, scores, read))
        (staged / paper / ORDERINGS).write_text(text, encoding="utf-8")
        trainings = [len(runs) for runs in scores.runs.values()]
        seeds[paper] = max(trainings, default=0)
    values = folder.config.values
    content = {
        "schema": SCHEMA,
        "commit": commit,
        "date": date.today().isoformat(),
        "configuration": ["config.yaml", *folder.overlays],
        "scale": values.scale,
        "extent": values.extent,
        "seeds": seeds,
        "synthetic": sorted(synthetic),
        "real": sorted(real),
        "seconds": _seconds(results / "timings"),
    }
    write_json(staged / FILE, content)


def _commit() -> str:
    """The commit of the checkout; nothing in it may be changed."""

    def git(*words: str) -> str:
        process = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        if process.returncode:
            raise InputError(f"git {' '.join(words)}: {process.stderr.strip() or 'failed'}")
        return process.stdout.strip()

    changes = git("status", "--porcelain", "--untracked-files=no")
    if changes:
        raise InputError(
            f"the checkout has changes: {', '.join(changes.split()[1::2])}; expected a commit that "
            "holds the code of the run"
        )
    return git("rev-parse", "HEAD")


def _seconds(timings: Path) -> dict[str, float]:
    """Seconds of jobs, by rule."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for rule, _, rows in timed_jobs(timings):
        seconds[rule] += sum(rows)
    return {rule: round(seconds[rule], 1) for rule in sorted(seconds)}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    arguments.add_path("--results", "folder of a finished run")
    arguments.add_path("--output", "folder of the record; what it held is replaced")
    arguments.add_argument(
        "--config", type=Path, help="recorded configuration (default: RESULTS/report/config.json)"
    )
    options = arguments.parse_args(argv)
    folder = record(options.results, options.output, options.config)
    print(f"{folder}: {sum(1 for _ in folder.rglob('*.csv'))} tables")


if __name__ == "__main__":
    run(main)
