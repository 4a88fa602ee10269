"""Label anyone's reports with the 14 CheXpert observations.

--input is a table with a column of texts (.csv, .csv.gz, .tsv, .tsv.gz, .parquet), a folder of
.txt files, or a data set: its folder with --layout, or mimic-cxr-reports.zip, NLMCXR_reports.tgz.

What is labelled: a table's text as a whole, as the published CheXpert labeller does; of a .txt
file or a data set the part that the setting labels.text names (by default the conclusion of
MIMIC-CXR's reports, findings and impression of others); a .txt file without any heading as a whole.

--output (.csv or .parquet) gets one row a report, in the order of the input: the id (--id-column,
else the row's number from 0; a file's path; a data set's study_id), then the observations in
CheXpert's order: 1.0 positive, 0.0 negative, -1.0 uncertain, blank not mentioned. A report without
a sentence, or one that cannot be read, gives 14 blanks and is counted in <output>.json (the
published labeller gives an empty text No Finding = 1). No text is written, except by --with-text.

Finished reports are kept in <output>.parts until all are done: a killed run that is started again
goes on, to the same bytes. The result does not depend on --threads either.
"""

import csv
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cxrflow.command import parser, read_settings, run
from cxrflow.data.layouts import holders
from cxrflow.drops import Drop, Tally
from cxrflow.errors import InputError, InterruptedRun
from cxrflow.files import atomic_path, write_json
from cxrflow.outputs import remove_folder
from cxrflow.progress import progress
from cxrflow.reports.label_input import Source, find_source
from cxrflow.reports.label_parts import (
    EMPTY,
    LABELLED,
    PART,
    REASONS,
    REASONS_WITH_TEXT,
    Job,
    identity,
    locked,
    read_part,
    reasons_of,
    remove_others,
)
from cxrflow.reports.label_pool import finished_parts
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.settings import ReportSettings

log = logging.getLogger(__name__)

NAMES = {1.0: "positive", 0.0: "negative", -1.0: "uncertain", None: "blank"}


@contextmanager
def _output(path: Path, id_name: str) -> Iterator[Callable[[pa.Table], None]]:
    """What adds a part's rows to the labels' file, CSV or Parquet by its name."""
    fields = [id_name, *OBSERVATIONS]

    def renamed(part: pa.Table) -> pa.Table:
        return part.select(["id", *OBSERVATIONS]).rename_columns(fields)

    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            schema = pa.schema(list(zip(fields, PART.types, strict=False)))
            with pq.ParquetWriter(temporary, schema) as parquet:
                yield lambda part: parquet.write_table(renamed(part))
        else:
            with open(temporary, "w", encoding="utf-8", newline="") as handle:
                rows = csv.writer(handle, lineterminator="\n")
                rows.writerow(fields)
                # A float and None are written as the published files have them: "-1.0", nothing.
                yield lambda part: rows.writerows(
                    zip(*(c.to_pylist() for c in renamed(part).columns), strict=True)
                )


class _Account:
    """Counts for ``<output>.json``."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.unread = 0
        self.labels = {name: Counter[str]() for name in OBSERVATIONS}

    def add(self, part: pa.Table) -> None:
        """Count a part."""
        self.outcomes.update(part["outcome"].to_pylist())
        self.unread += sum(part["unread"].to_pylist())
        for name in OBSERVATIONS:
            for count in part[name].value_counts().to_pylist():
                self.labels[name][NAMES[count["values"]]] += count["counts"]

    def check(self, total: int, root: Path, most: float) -> None:
        """End the run when too many reports are unusable; an empty one is only counted."""
        bad = {k: n for k, n in self.outcomes.items() if k not in (LABELLED, EMPTY)}
        drops = [Drop(reason, count, failed=True) for reason, count in bad.items()]
        kept = total - sum(bad.values())
        Tally("reports read", "reports", kept, drops).require_few(root, most)


@contextmanager
def _stoppable(output: Path) -> Iterator[None]:
    """SIGTERM ends the run; every finished part is on the disk already."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise InterruptedRun(
            f"{output}: asked to stop; finished reports are kept, run the same command again"
        )

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def label_reports(
    source: Source,
    output: str | Path,
    settings: ReportSettings,
    stanza: str | None = None,
    threads: int = 1,
    reasons: str | Path | None = None,
    with_text: bool = False,
) -> dict[str, Any]:
    """Label all reports of ``source`` and write the table; gives ``<output>.json``'s content.

    ``reasons`` is a Parquet file with one row an assertion, ``with_text`` its sentence too.

    Raises:
        InputError: a file, a setting or too many reports are bad; no output is written.
        InterruptedRun: SIGTERM; the finished parts are kept.
    """
    output, started = Path(output), time.monotonic()
    settings = settings.of_layout(source.kind)
    schema = (REASONS_WITH_TEXT if with_text else REASONS) if reasons is not None else None
    made_from = identity(source, settings, stanza, schema)
    folder = output.with_name(f"{output.name}.parts")
    job = Job(source.kind, source.root, settings, stanza, schema, folder, made_from)
    account = _Account()
    with _stoppable(output), locked(folder):
        remove_others(folder, made_from, [output, *([Path(reasons)] if reasons else [])])
        kept = len(list(folder.glob("*.arrow")))
        if kept:
            log.info("%s: going on with %d finished parts", folder, kept)
        with ExitStack() as stack:
            write = stack.enter_context(_output(output, source.id_name))
            said = None
            if reasons is not None:
                temporary = stack.enter_context(atomic_path(reasons))
                said = stack.enter_context(pq.ParquetWriter(temporary, schema))
            parts = stack.enter_context(closing(finished_parts(job, source, threads)))
            tables = ((part, read_part(part)) for part in parts)
            for part, table in progress(tables, source.total, "report", _rows):
                write(table)
                account.add(table)
                if said is not None:
                    said.write_table(read_part(reasons_of(part)))
            account.check(source.total, source.root, settings.max_failed_share)
        seconds = time.monotonic() - started
        summary = {
            "input": str(source.root),
            "kind": source.kind,
            "reports": source.total,
            "empty": account.outcomes[EMPTY],
            "outcomes": dict(account.outcomes),
            "unread_sentences": account.unread,
            "labels": {name: dict(counts) for name, counts in account.labels.items()},
            "settings": settings.model_dump(mode="json"),
            "parts_resumed": kept,
            "seconds": round(seconds, 1),
            "reports_per_second": round(source.total / max(seconds, 1e-9), 1),
        }
        write_json(output.with_name(f"{output.name}.json"), summary)
        remove_folder(folder)
    _tell(summary, output)
    return summary


def _tell(summary: dict[str, Any], output: Path) -> None:
    positive = {name: counts.get("positive", 0) for name, counts in summary["labels"].items()}
    log.info(
        "%s: %d reports in %.1f s (%.0f a second), %d empty, %d sentences unread; positive: %s",
        output,
        summary["reports"],
        summary["seconds"],
        summary["reports_per_second"],
        summary["empty"],
        summary["unread_sentences"],
        ", ".join(f"{name} {count}" for name, count in positive.items()),
    )


def _rows(part: tuple[Path, pa.Table]) -> int:
    return len(part[1])


def _check_outputs(given: Any) -> None:
    if given.output.suffix not in (".csv", ".parquet"):
        raise InputError(f"--output {given.output}: expected a name ending in .csv or .parquet")
    if given.reasons is not None and given.reasons.suffix != ".parquet":
        raise InputError(f"--reasons {given.reasons}: expected a name ending in .parquet")
    if given.with_text and given.reasons is None:
        raise InputError("--with-text: nothing to add texts to without --reasons")
    summary = given.output.with_name(f"{given.output.name}.json")
    for path in (given.output, given.reasons):
        if path is not None and path.exists() and not summary.is_file():
            raise InputError(
                f"{path}: was not written by an earlier run, which would have left {summary.name} "
                "beside the labels; name another file, or delete this one yourself"
            )


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--input", type=Path, required=True, help="table, folder of .txt, or data set"
    )
    arguments.add_argument(
        "--output", type=Path, required=True, help="labels.csv or labels.parquet"
    )
    arguments.add_argument(
        "--layout", choices=holders("reports"), help="a data set's, as published"
    )
    arguments.add_argument("--text-column", help="of a table; found when one name is obvious")
    arguments.add_argument("--id-column", help="of a table; default: the row's number from 0")
    arguments.add_argument(
        "--no-header", action="store_true", help="a CSV of one column whose first row is a report"
    )
    arguments.add_argument("--stanza", type=Path, help="stanza model folder, for splitter: stanza")
    arguments.add_argument("--threads", type=int, default=1, help="processes")
    arguments.add_argument(
        "--reasons", type=Path, help="also write a .parquet: one row an assertion"
    )
    arguments.add_argument(
        "--with-text", action="store_true", help="phrase and sentence in --reasons too"
    )
    given = arguments.parse_args(argv)
    _check_outputs(given)
    settings = read_settings(given.settings, ReportSettings)
    source = find_source(
        given.input, given.layout, given.text_column, given.id_column, not given.no_header
    )
    label_reports(
        source,
        given.output,
        settings,
        given.stanza,
        given.threads,
        given.reasons,
        given.with_text,
    )


if __name__ == "__main__":
    run(main)
