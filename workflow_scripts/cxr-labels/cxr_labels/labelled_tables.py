"""Labels of any hospital's reports, as tables with the reasons behind them."""

import logging
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cxr_files.atomic import write_json
from cxr_files.drops import EXAMPLES, Tally
from cxr_files.errors import InputError
from cxr_files.progress import progress
from cxr_files.row_file import row_file
from cxr_labels.label_sources import TextSource
from cxr_labels.labelling import LABELLED, REASONS, UNLABELLED, LabelRows, Worker
from cxr_labels.observations import NAMES, OBSERVATIONS
from cxr_labels.parsing import require_few, warn_of_headings
from cxr_labels.settings import ReportSettings
from cxr_labels.workers import in_chunks

log = logging.getLogger(__name__)

# Columns of the reasons; numbers are empty where there is none.
NUMBERS = (
    *("sentence", "start", "end", "text_start", "text_end", "value", "cue_start", "cue_end"),
)
TEXTS = ("phrase", "text")  # the last columns
BLANK = (None,) * len(OBSERVATIONS)


class Account:
    """Counts of the reports that have passed, and the ids of those that the summary names."""

    def __init__(self) -> None:
        self.rows = LabelRows()
        self.tally = Tally("reports labelled", "reports")
        self.unlabelled: dict[str, list[str]] = {}
        self.states = {name: Counter[str]() for name in OBSERVATIONS}

    def add(self, batch: LabelRows) -> None:
        """Count a run of reports."""
        self.rows.count(batch)
        for name, outcome, _ in batch.labels:
            if outcome == LABELLED:
                self.tally.kept += 1
            else:
                self.tally.drop(outcome, [name], failed=outcome not in UNLABELLED)
                self.unlabelled.setdefault(outcome, []).append(name)
        columns = zip(*(values for *_, values in batch.labels if values), strict=True)
        for name, column in zip(OBSERVATIONS, columns, strict=False):  # none if no report has any
            self.states[name].update(NAMES[value] for value in column if value in NAMES)

    def warn(self) -> None:
        """Say what is not labelled, or not as a whole."""
        for drop in self.tally.drops:
            examples = ", ".join(drop.examples)
            log.warning("%d not labelled: %s (%s)", drop.count, drop.reason, examples)
        for ids, what in (
            (self.rows.addenda, "have an addendum; it is not labelled"),
            (self.rows.reversed, "have an addendum that says the opposite of their labels"),
            (list(self.rows.unread), "would be No Finding, had all their words been read"),
            (self.rows.left_out, "have more than half of their words in no labelled section"),
        ):
            if ids:
                log.warning("%d reports %s (%s)", len(ids), what, ", ".join(ids[:EXAMPLES]))

    def as_json(self) -> dict[str, Any]:
        """The part of ``<output>.json`` that is counted."""
        total = self.tally.kept + sum(map(len, self.unlabelled.values()))
        outcomes = {name: len(ids) for name, ids in self.unlabelled.items()}
        if self.tally.kept:
            outcomes[LABELLED] = self.tally.kept
        return {
            "steps": [self.tally.as_json()],
            "read": dict(self.rows.read),
            "sections": dict(self.rows.sections.most_common()),
            "addenda": len(self.rows.addenda),
            "reversed_by_addendum": self.rows.reversed,
            "more_than_half_left_out": self.rows.left_out,
            "no_finding_withheld": list(self.rows.unread),
            "unread_words": sum(self.rows.unread.values()),
            "outcomes": outcomes,
            "not_labelled": self.unlabelled,
            "labels": {
                name: {**row, "blank": total - row.total()} for name, row in self.states.items()
            },
        }


def label_reports(
    source: TextSource,
    output: Path,
    settings: ReportSettings,
    stanza: str | None = None,
    threads: int = 1,
    reasons: Path | None = None,
    with_text: bool = False,
) -> dict[str, Any]:
    """Label all reports of ``source`` and write the table; gives ``<output>.json``'s content.

    ``reasons`` is a Parquet file with one row an assertion, ``with_text`` its sentence too.

    Raises:
        InputError: a file, a setting or too many reports are bad; no output is written.
    """
    started = time.monotonic()
    settings = settings.of_layout(source.kind)
    if reasons is not None and settings.labels.engine != "scope":
        raise InputError("labels.engine is 'chexbert': a network gives no reasons; expected scope")
    account = Account()
    options = (source.kind, source.root, stanza, reasons is not None)
    batches = in_chunks(source.reports, source.total, threads, Worker, settings, *options)
    types = dict.fromkeys((source.id_name, *source.beside), "str")
    types |= {**dict.fromkeys(OBSERVATIONS, "float64"), "outcome": "str", "unread": "Int64"}
    columns = REASONS if with_text else REASONS[: -len(TEXTS)]
    with ExitStack() as files:
        explained = None
        if reasons is not None:
            numbered = {name: "Int64" if name in NUMBERS else "str" for name in columns}
            explained = files.enter_context(row_file(reasons, numbered))
        labels = files.enter_context(row_file(output, types))
        for batch in progress(batches, source.total, "report", lambda batch: len(batch.labels)):
            labels.add(
                (
                    *(name, *next(source.values), *(row or BLANK), outcome),
                    None if row is None else batch.unread.get(name, 0),
                )
                for name, outcome, row in batch.labels
            )
            if explained is not None:
                explained.add(row[: len(columns)] for row in batch.reasons)
            account.add(batch)
        account.warn()
        rows = account.rows
        require_few(account.tally, source.root, settings, rows.starts)
        warn_of_headings(settings, rows.starts, rows.unheaded)
        seconds = time.monotonic() - started
        summary = {
            "input": str(source.root),
            "kind": source.kind,
            "reports": source.total,
            "text_columns": list(source.text_columns),
            "columns_beside": list(source.beside),
            "separator": source.separator,
            **account.as_json(),
            "settings": settings.model_dump(mode="json"),
            "seconds": round(seconds, 1),
        }
        # Before the other files, which it marks as ours, also after a kill between the writes.
        write_json(output.with_name(f"{output.name}.json"), summary)
    log.info(
        "%s: %d reports in %.1f s (%.0f a second); positive: %s",
        output,
        source.total,
        seconds,
        source.total / max(seconds, 1e-9),
        ", ".join(f"{name} {states['positive']}" for name, states in account.states.items()),
    )
    return summary
