"""Labels of any hospital's reports, as tables with the reasons behind them."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from cxrflow.compute.progress import progress
from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_path, write_json
from cxrflow.files.csv_table import inert
from cxrflow.files.drops import Tally
from cxrflow.reports.headings import line_starts
from cxrflow.reports.label_sources import TextSource
from cxrflow.reports.labels.labeller import make_labeller
from cxrflow.reports.labels.language import UNKNOWN_LANGUAGE, known_share
from cxrflow.reports.labels.observations import NAMES, OBSERVATIONS, Labels
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.parsing import (
    Parsed,
    ReportParser,
    labelled_sections,
    misses_headings,
    require_few,
    warn_of_headings,
)
from cxrflow.reports.sentences import make_splitter
from cxrflow.reports.settings import ReportSettings
from cxrflow.reports.texts import RawReport
from cxrflow.reports.workers import in_chunks

log = logging.getLogger(__name__)

LABELLED, EMPTY = "labelled", "empty"
REASONS = (
    *("id", "sentence", "start", "end", "observation", "value", "rule", "cue_start", "cue_end"),
    *("phrase", "text"),
)


class LabelRows(NamedTuple):
    """Labels of a run of reports (id, outcome, labels), and a row for each assertion.

    ``read`` counts the labelled sections, ``addenda`` the reports with an addendum, which is not
    labelled; ``unheaded`` those without a known heading of findings or impression, and ``starts``
    the line starts in these.
    """

    labels: list[tuple[str, str, Labels | None]]
    reasons: list[tuple[Any, ...]]
    read: Counter[str]
    starts: Counter[str]
    addenda: int
    unheaded: int


class Worker:
    """Reads, splits and labels runs of reports in one process."""

    def __init__(
        self, settings: ReportSettings, kind: str, root: Path, stanza: str | None, reasons: bool
    ):
        self._settings, self._reasons = settings.labels, reasons
        self._parser = ReportParser(settings, kind, root)
        self._splitter = make_splitter(settings.splitter, stanza)
        self._labeller = make_labeller(settings.labels)

    def process(self, reports: Sequence[RawReport]) -> LabelRows:
        """The rows of these reports, in order."""
        parsed = [self._parser.parse(report) for report in reports]
        texts_by_report = [self._texts(*pair) for pair in zip(reports, parsed, strict=True)]
        split = iter(self._splitter.split([text for texts, _ in texts_by_report for text in texts]))
        outcomes, sentences = [], []
        for texts, outcome in texts_by_report:
            of_report = [sentence for _ in texts for sentence in next(split)]
            if not of_report and outcome == LABELLED:
                outcome = EMPTY
            elif of_report and known_share(of_report) < self._settings.least_known:
                outcome, of_report = UNKNOWN_LANGUAGE, []
            outcomes.append(outcome)
            sentences.append(of_report)
        labels = iter(self._labeller.label([of_report for of_report in sentences if of_report]))
        rows = LabelRows([], [], Counter(), Counter(), 0, 0)
        for report, of_report, outcome in zip(reports, sentences, outcomes, strict=True):
            rows.labels.append((report.study_id, outcome, next(labels) if of_report else None))
            if self._reasons:
                assert isinstance(self._labeller, ScopeLabeller), "the network gives none"
                for r in self._labeller.explain(of_report):
                    place = (report.study_id, r.sentence, r.start, r.end, r.observation, r.value)
                    cue = (r.rule, r.cue_start, r.cue_end, r.phrase, of_report[r.sentence])
                    rows.reasons.append((*place, *cue))
        contents = [(report, parse.content) for report, parse in zip(reports, parsed, strict=True)]
        addenda = unheaded = 0
        for (report, content), outcome in zip(contents, outcomes, strict=True):
            if content is not None and outcome == LABELLED:
                rows.read[content.outcome] += 1
                addenda += bool(content.sections.get("addendum"))
            if content is not None and report.text and misses_headings(content):
                rows.starts.update(line_starts(report.text))
                unheaded += 1
        return rows._replace(addenda=addenda, unheaded=unheaded)

    def _texts(self, report: RawReport, parsed: Parsed) -> tuple[list[str], str]:
        """The texts to label in order, and the outcome."""
        contents = (report.text or "", *(report.sections or {}).values())
        if parsed.failure == "empty file" or not (report.failure or any(map(str.strip, contents))):
            return [], EMPTY
        if parsed.content is None or parsed.failure is not None:
            return [], str(parsed.failure)
        return list(labelled_sections(parsed.content, self._settings.text).values()), LABELLED


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
    labels, assertions, addenda, unheaded = [], [], 0, 0
    read, starts = Counter[str](), Counter[str]()
    options = (source.kind, source.root, stanza, reasons is not None)
    batches = in_chunks(source.reports, source.total, threads, Worker, settings, *options)
    for batch in progress(batches, source.total, "report", lambda batch: len(batch.labels)):
        labels.extend(batch.labels)
        assertions.extend(batch.reasons)
        read += batch.read
        starts += batch.starts
        addenda += batch.addenda
        unheaded += batch.unheaded
    tally = Tally("reports labelled", "reports")
    for name, outcome, _ in labels:
        if outcome == LABELLED:
            tally.kept += 1
        else:
            tally.drop(outcome, [name], failed=outcome not in (EMPTY, UNKNOWN_LANGUAGE))
    for drop in tally.drops:
        log.warning("%d not labelled: %s (%s)", drop.count, drop.reason, ", ".join(drop.examples))
    if addenda:
        log.warning("%d reports have an addendum; it is not labelled", addenda)
    require_few(tally, source.root, settings, starts)
    warn_of_headings(settings, starts, unheaded)
    blank = (None,) * len(OBSERVATIONS)
    table = pd.DataFrame(
        [values or blank for *_, values in labels], columns=list(OBSERVATIONS), dtype="float64"
    )
    counts = {name: Counter(map(NAMES.get, table[name].dropna())) for name in OBSERVATIONS}
    table.insert(0, source.id_name, [name for name, *_ in labels])
    seconds = time.monotonic() - started
    summary = {
        "input": str(source.root),
        "kind": source.kind,
        "reports": source.total,
        "text_columns": list(source.text_columns),
        "separator": source.separator,
        "steps": [tally.as_json()],
        "read": dict(read),
        "addenda": addenda,
        "outcomes": dict(Counter(outcome for _, outcome, _ in labels)),
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
        frame = pd.DataFrame(assertions, columns=list(REASONS))
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
