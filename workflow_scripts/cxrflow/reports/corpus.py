"""Turn a data set's reports into sections, sentences, CheXpert labels and documents.

Writes ``sections.parquet``, ``sentences.parquet``, ``labels.parquet``, ``documents.parquet`` and
``corpus.json``, which counts every outcome. A bad report stays as a row with its reason and null
texts; above ``max_failed_share`` the program fails. The result does not depend on ``--threads``.
"""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxr_files.atomic import atomic_folder, fingerprint, is_synthetic, write_json
from cxr_files.drops import Drop, Tally
from cxr_files.errors import InputError
from cxr_files.ids import in_brackets
from cxr_files.parquet import parquet_writer
from cxr_files.program import parser, run, thread_count
from cxr_files.progress import progress
from cxr_files.settings import read_settings
from cxr_labels.headings import hint
from cxr_labels.observations import NAMES, OBSERVATIONS
from cxr_labels.parsing import require_few, warn_of_headings
from cxr_labels.settings import ReportSettings
from cxr_labels.workers import in_chunks
from cxrflow.data.layouts import holders
from cxrflow.reports.reading import KEPT, CorpusRows, Processor
from cxrflow.reports.texts import Reference, list_reports

log = logging.getLogger(__name__)

SCHEMAS = {
    "sections": pa.schema(
        (name, pa.string())
        for name in ("study_id", "subject_id", *KEPT, "conclusion", "conclusion_from", "outcome")
    ),
    "sentences": pa.schema(
        [
            ("study_id", pa.string()),
            ("section", pa.string()),
            ("index", pa.int32()),
            ("sentence", pa.string()),
        ]
    ),
    "labels": pa.schema(
        [("study_id", pa.string()), *((name, pa.float64()) for name in OBSERVATIONS)]
    ),
    "documents": pa.schema([("document_id", pa.string()), ("text", pa.string())]),
}


class _Tables:
    """The four Parquet files, written chunk by chunk so that memory stays flat."""

    def __init__(self, folder: Path):
        with ExitStack() as opened:  # closes each, also where another cannot be opened or closed
            self._writers = {
                name: opened.enter_context(
                    parquet_writer(folder / f"{name}.parquet", schema, compression="zstd")
                )
                for name, schema in SCHEMAS.items()
            }
            self._open = opened.pop_all()

    def __enter__(self) -> "_Tables":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def write(self, rows: CorpusRows) -> None:
        """Add a chunk's rows; an empty table gets none."""
        labels = [(study, *values) for study, values in rows.labels]
        for name, table in (
            ("sentences", rows.sentences),
            ("labels", labels),
            ("documents", rows.documents),
        ):
            if table:
                columns = [list(column) for column in zip(*table, strict=True)]
                arrays = [
                    pa.array(column, field.type, from_pandas=False)
                    for column, field in zip(columns, SCHEMAS[name], strict=True)
                ]
                self._writers[name].write_table(pa.Table.from_arrays(arrays, schema=SCHEMAS[name]))
        sections = pa.Table.from_pylist(rows.sections, schema=SCHEMAS["sections"])
        self._writers["sections"].write_table(sections)


class _Account:
    """Counts for corpus.json."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.tally = Tally("reports read", "reports")
        self.labelled = Tally("reports labelled", "reports")
        self.starts: Counter[str] = Counter()
        self.other_forms = 0
        self.counts: Counter[str] = Counter()
        self.labels = {name: Counter[str]() for name in OBSERVATIONS}
        self._digest = hashlib.sha256()

    def add(self, rows: CorpusRows) -> None:
        """Count a chunk."""
        for row in rows.sections:
            self.outcomes[str(row["outcome"])] += 1
            content = (row["study_id"], row["findings"], row["impression"], row["conclusion"])
            self._digest.update(repr(content).encode("utf-8", "surrogatepass"))
        for study, reason in rows.failures:
            self.tally.drop(reason, [study], failed=True)
        self.tally.kept += len(rows.sections) - len(rows.failures)
        self.counts.update(
            sentences=len(rows.sentences),
            labelled=len(rows.labels),
            documents=len(rows.documents),
            typos_corrected=rows.typos,
            addenda=rows.addenda,
            unheaded=rows.unheaded,
            no_finding_withheld=rows.withheld,
        )
        self.labelled.kept += len(rows.labels)
        for study, reason in rows.unlabelled:
            self.labelled.drop(reason, [study])
        self.starts += rows.starts
        self.other_forms += rows.other_forms
        for _, values in rows.labels:
            for observation, value in zip(OBSERVATIONS, values, strict=True):
                self.labels[observation][NAMES.get(value, "blank")] += 1

    def summary(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            "outcomes": dict(self.outcomes),
            "counts": dict(self.counts),
            "labels": {name: dict(counts) for name, counts in self.labels.items()},
            "fingerprint": self._digest.hexdigest()[:16],
        }


def _unrepeated(references: Sequence[Reference]) -> tuple[list[Reference], Drop]:
    first = {reference.study_id: reference for reference in reversed(references)}
    repeated = [report.study_id for report in references if first[report.study_id] is not report]
    unique = [report for report in references if first[report.study_id] is report]
    return unique, Drop.of("study listed twice", repeated)


def _require_headings(account: _Account, root: str, reports: int) -> None:
    """Refuse another hospital's reports where MIMIC-CXR's are expected; warn of single ones."""
    if not account.other_forms:
        return
    message = (
        f"{root}: {account.other_forms} of {reports} reports have findings or an impression under "
        f"headings of another form; {hint('mimic_cxr', account.starts, account.other_forms)}"
    )
    if account.other_forms > reports / 2:
        raise InputError(message)
    log.warning("%s", message)


def build_corpus(
    layout: str,
    root: str,
    output: str | Path,
    settings: ReportSettings,
    stanza: str | None = None,
    threads: int = 1,
) -> dict[str, Any]:
    """Process all reports at ``root`` and write the corpus folder; gives corpus.json's content.

    Raises:
        InputError: the root, the settings' files or too many reports are bad; nothing is written.
    """
    settings = settings.of_layout(layout)
    listing = list_reports(layout, root)
    references, repeated = _unrepeated(listing.references)
    if not references:
        raise InputError(f"{root}: no report is listed")
    account, started = _Account(), time.monotonic()
    with atomic_folder(output, "report corpus") as folder:
        with _Tables(folder) as tables:
            total = len(references)
            chunk_rows = in_chunks(
                references, total, threads, Processor, settings, layout, root, stanza
            )
            for rows in progress(chunk_rows, total, "report", lambda rows: len(rows.sections)):
                tables.write(rows)
                account.add(rows)
        require_few(account.tally, root, settings, account.starts)
        _require_headings(account, root, len(references))
        listing_counts = Tally(
            "reports listed", "reports", len(references), [*listing.dropped, repeated]
        )
        values = settings.model_dump(mode="json")
        corpus = {
            "dataset": Path(output).name,
            "layout": layout,
            "synthetic": is_synthetic(root),
            "reports": len(references),
            "steps": [s.as_json() for s in (listing_counts, account.tally, account.labelled)],
            "settings": values,
            "settings_fingerprint": fingerprint(values),
            **account.summary(),
        }
        write_json(folder / "corpus.json", corpus)
    if settings.sections.headings == "any":
        warn_of_headings(settings, account.starts, account.counts["unheaded"])
    for drop in account.labelled.drops:
        ids = in_brackets(drop.examples)
        log.warning("%d not labelled: %s%s", drop.count, drop.reason, ids)
    if account.counts["no_finding_withheld"]:
        log.warning(
            "%d reports would be No Finding, had all their words been read",
            account.counts["no_finding_withheld"],
        )
    if account.counts["addenda"]:
        log.warning("%d reports have an addendum; it is not labelled", account.counts["addenda"])
    seconds = time.monotonic() - started
    log.info(
        "%s: %d reports in %.1f s (%.0f a second), %d unusable",
        layout,
        len(references),
        seconds,
        len(references) / max(seconds, 1e-9),
        account.tally.failed,
    )
    return corpus


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    options = parser(__doc__)
    layout_help = f"one of {', '.join(holders('reports'))}, or module:Class"
    options.add_argument("--layout", required=True, help=layout_help)
    options.add_path("--root", "the data set's folder, as published")
    options.add_argument("--stanza", type=Path, help="stanza's models, for splitter: stanza")
    options.add_argument("--threads", type=thread_count, default=1, help="parallel processes")
    options.add_path("--output", "results/corpus/<dataset>")
    args = options.parse_args(argv)
    settings = read_settings(args.settings, ReportSettings)
    build_corpus(
        args.layout,
        args.root,
        args.output,
        settings,
        args.stanza,
        args.threads,
    )


if __name__ == "__main__":
    run(main)
