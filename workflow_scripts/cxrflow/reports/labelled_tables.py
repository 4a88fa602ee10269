"""Labels of any hospital's reports, as tables with the reasons behind them."""

import logging
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from cxrflow.compute.progress import progress
from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_path, write_json
from cxrflow.files.csv_table import inert
from cxrflow.files.drops import EXAMPLES, Tally
from cxrflow.reports.label_sources import TextSource
from cxrflow.reports.labelling import LABELLED, REASONS, UNLABELLED, LabelRows, Worker
from cxrflow.reports.labels.observations import NAMES, OBSERVATIONS
from cxrflow.reports.parsing import require_few, warn_of_headings
from cxrflow.reports.settings import ReportSettings
from cxrflow.reports.workers import in_chunks

log = logging.getLogger(__name__)

# Columns of the reasons that are whole numbers, and empty where there is none.
NUMBERS = (
    *("sentence", "start", "end", "text_start", "text_end", "value", "cue_start", "cue_end"),
)


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
    rows = LabelRows()
    options = (source.kind, source.root, stanza, reasons is not None)
    batches = in_chunks(source.reports, source.total, threads, Worker, settings, *options)
    for batch in progress(batches, source.total, "report", lambda batch: len(batch.labels)):
        rows += batch
    tally = Tally("reports labelled", "reports")
    unlabelled: dict[str, list[str]] = {}
    for name, outcome, _ in rows.labels:
        if outcome == LABELLED:
            tally.kept += 1
        else:
            tally.drop(outcome, [name], failed=outcome not in UNLABELLED)
            unlabelled.setdefault(outcome, []).append(name)
    for drop in tally.drops:
        log.warning("%d not labelled: %s (%s)", drop.count, drop.reason, ", ".join(drop.examples))
    for ids, what in (
        (rows.addenda, "have an addendum; it is not labelled"),
        (rows.reversed, "have an addendum that says the opposite of their labels"),
        (rows.left_out, "have more than half of their words outside the labelled sections"),
    ):
        if ids:
            log.warning("%d reports %s (%s)", len(ids), what, ", ".join(ids[:EXAMPLES]))
    require_few(tally, source.root, settings, rows.starts)
    warn_of_headings(settings, rows.starts, rows.unheaded)
    blank = (None,) * len(OBSERVATIONS)
    table = pd.DataFrame(
        [values or blank for *_, values in rows.labels], columns=list(OBSERVATIONS), dtype="float64"
    )
    counts = {name: Counter(map(NAMES.get, table[name].dropna())) for name in OBSERVATIONS}
    table.insert(0, source.id_name, [name for name, *_ in rows.labels])
    table["outcome"] = [outcome for _, outcome, _ in rows.labels]
    seconds = time.monotonic() - started
    summary = {
        "input": str(source.root),
        "kind": source.kind,
        "reports": source.total,
        "text_columns": list(source.text_columns),
        "separator": source.separator,
        "steps": [tally.as_json()],
        "read": dict(rows.read),
        "sections": dict(rows.sections.most_common()),
        "addenda": len(rows.addenda),
        "reversed_by_addendum": rows.reversed,
        "more_than_half_left_out": rows.left_out,
        "outcomes": dict(Counter(outcome for _, outcome, _ in rows.labels)),
        "not_labelled": unlabelled,
        "labels": {
            name: {**row, "blank": source.total - row.total()} for name, row in counts.items()
        },
        "settings": settings.model_dump(mode="json"),
        "seconds": round(seconds, 1),
    }
    # The summary first: it marks the other files as ours, also after a kill between the writes.
    write_json(output.with_name(f"{output.name}.json"), summary)
    _write(table, output)
    if reasons is not None:
        frame = pd.DataFrame(rows.reasons, columns=list(REASONS))
        frame = frame.astype(dict.fromkeys(NUMBERS, "Int64"))
        _write(frame if with_text else frame.drop(columns=["phrase", "text"]), reasons)
    log.info(
        "%s: %d reports in %.1f s (%.0f a second); positive: %s",
        output,
        source.total,
        seconds,
        source.total / max(seconds, 1e-9),
        ", ".join(f"{name} {states['positive']}" for name, states in counts.items()),
    )
    return summary


def _write(table: pd.DataFrame, path: Path) -> None:
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            name = table.columns[0]
            table.assign(**{name: inert(table[name].astype("str"))}).to_csv(temporary, index=False)
