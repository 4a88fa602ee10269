"""Labels of anyone's reports: tables and folders of texts, what is written of them."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from cxrflow.csv_table import read_text
from cxrflow.drops import Tally
from cxrflow.errors import InputError
from cxrflow.files import atomic_path, write_json
from cxrflow.parallel import chunks, ordered_map
from cxrflow.parquet import read_table
from cxrflow.progress import progress
from cxrflow.reports.labels.labeller import make_labeller
from cxrflow.reports.labels.observations import NAMES, OBSERVATIONS, Labels
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.parsing import ReportParser, labelled_sections
from cxrflow.reports.sections import HEADING
from cxrflow.reports.sentences import make_splitter
from cxrflow.reports.settings import ReportSettings
from cxrflow.reports.texts import RawReport, decode

log = logging.getLogger(__name__)

# Names of a text column, in lower case; more than one of them in a table is not obvious.
TEXT_COLUMNS = ("report", "reports", "report text", "report impression", "text", "impression")
LABELLED, EMPTY = "labelled", "empty"
REASONS = (
    *("id", "sentence", "start", "end", "observation", "value", "rule", "cue_start", "cue_end"),
    *("phrase", "text"),
)


@dataclass(frozen=True)
class Source:
    """Reports to label: a "table" or "files" at ``root``; ``total`` counts them."""

    kind: str
    root: Path
    id_name: str
    total: int
    reports: Iterator[RawReport]


class Rows(NamedTuple):
    """Of a run of reports: id, outcome and labels of each, and a row an assertion."""

    labels: list[tuple[str, str, Labels | None]]
    reasons: list[tuple[Any, ...]]


def find_source(path: Path, text_column: str | None = None, id_column: str | None = None) -> Source:
    """The reports at ``path``; the other arguments are those of the command line.

    Raises:
        InputError: nothing there, not readable, no or several text columns, or an id repeated.
    """
    if not path.exists():
        raise InputError(f"{path}: not found")
    if path.is_file():
        return _table(path, text_column, id_column)
    if text_column or id_column:
        raise InputError(
            f"{path}: --text-column and --id-column are for tables, and this is no table"
        )
    files = sorted(file.relative_to(path) for file in path.rglob("*.txt"))
    if not files:
        raise InputError(
            f"{path}: no .txt file below it; cxrflow.reports.corpus labels the reports of data sets"
        )
    return Source("files", path, "path", len(files), (_read_file(path, file) for file in files))


def _read_file(root: Path, file: Path) -> RawReport:
    # A name that is no UTF-8 can be opened, but not written.
    name = str(file).encode("utf-8", "backslashreplace").decode()
    try:
        content = (root / file).read_bytes()
    except OSError:
        return RawReport(name, None, failure="file cannot be read")
    text, failure = decode(content)
    return RawReport(name, None, text=text, failure=failure)


def _table(path: Path, text_column: str | None, id_column: str | None) -> Source:
    if path.suffix == ".parquet":
        frame = read_table(path)
    elif path.name.endswith((".csv", ".csv.gz")):
        frame, damaged = read_text(path)
        for drop in damaged:
            raise InputError(
                f"{drop.reason}: {', '.join(drop.examples)} (a text with commas needs quotes)"
            )
    else:
        raise InputError(f"{path}: expected a folder or a name ending in .csv, .csv.gz or .parquet")
    columns = [str(name) for name in frame.columns]
    found = ", ".join(f"'{column}'" for column in columns)
    named = [c for c in columns if c.strip().lower().replace("_", " ") in TEXT_COLUMNS]
    candidates = [text_column] if text_column else columns if len(columns) == 1 else named
    if len(candidates) != 1:
        raise InputError(
            f"{path}: {len(candidates)} columns look like the report's text; name it with "
            f"--text-column; found {found}"
        )
    for name in (*candidates, *([id_column] if id_column else [])):
        if name not in columns or f"{name}.1" in columns:  # pandas numbers repeated names
            raise InputError(f"{path}: expected one column '{name}'; found {found}")
    if frame.empty:
        raise InputError(f"{path}: holds no row")
    texts = frame[candidates[0]]
    if isinstance(texts.dtype, pd.CategoricalDtype):
        texts = texts.astype(texts.dtype.categories.dtype)
    if not (pd.api.types.is_string_dtype(texts) or texts.isna().all()):
        raise InputError(f"{path}: column '{candidates[0]}' holds {texts.dtype}, expected text")
    numbers = pd.Series(range(len(frame))).astype("str")
    ids = numbers if id_column is None else _ids(frame, path, id_column)
    reports = (
        RawReport(name, None, text="" if pd.isna(text) else text)
        for name, text in zip(ids, texts, strict=True)
    )
    return Source("table", path, id_column or "row", len(frame), reports)


def _ids(frame: pd.DataFrame, path: Path, column: str) -> pd.Series:
    ids = frame[column].astype("str")
    blank = frame[column].isna() | (ids.str.strip() == "")
    if blank.any():
        raise InputError(f"{path}: row {int(blank.to_numpy().argmax())} has no id")
    twice = ids[ids.duplicated()]
    if len(twice):
        raise InputError(f"{path}: id '{twice.iloc[0]}' is given twice")
    return ids


class Worker:
    """Reads, splits and labels runs of reports in one process."""

    def __init__(self, kind: str, root: Path, settings: ReportSettings, stanza: str | None):
        self._whole = kind == "table"
        self._choice = settings.labels.text
        self._parser = ReportParser(settings, kind, root)
        self._splitter = make_splitter(settings.splitter, stanza)
        self._labeller = make_labeller(settings.labels)

    def label(self, reports: Sequence[RawReport], reasons: bool) -> Rows:
        """The rows of these reports, in order."""
        texts = [self._texts(report) for report in reports]
        split = iter(self._splitter.split([text for found, _ in texts for text in found]))
        sentences = [[s for _ in found for s in next(split)] for found, _ in texts]
        labels = iter(self._labeller.label([of_report for of_report in sentences if of_report]))
        rows = Rows([], [])
        for report, of_report, (_, outcome) in zip(reports, sentences, texts, strict=True):
            if not of_report and outcome == LABELLED:
                outcome = EMPTY
            rows.labels.append((report.study_id, outcome, next(labels) if of_report else None))
            if reasons:
                assert isinstance(self._labeller, ScopeLabeller), "the network gives none"
                for r in self._labeller.explain(of_report):
                    place = (report.study_id, r.sentence, r.start, r.end, r.observation, r.value)
                    cue = (r.rule, r.cue_start, r.cue_end, r.phrase, of_report[r.sentence])
                    rows.reasons.append((*place, *cue))
        return rows

    def _texts(self, report: RawReport) -> tuple[list[str], str]:
        """The texts to label in order, and the outcome."""
        if self._whole or (report.text and not HEADING.search(report.text)):
            text, failure = self._parser.correct(report)
            return [text], failure or LABELLED
        parsed = self._parser.parse(report)
        if parsed.content is None or parsed.failure is not None:
            failure = parsed.failure or LABELLED
            return [], EMPTY if failure == "empty file" else failure
        return list(labelled_sections(parsed.content, self._choice).values()), LABELLED


_worker: Worker | None = None


def _start(kind: str, root: Path, settings: ReportSettings, stanza: str | None) -> None:
    global _worker
    if settings.uses_torch:
        import torch

        torch.set_num_threads(1)
    _worker = Worker(kind, root, settings, stanza)


def _label(reports: Sequence[RawReport], reasons: bool) -> Rows:
    assert _worker is not None, "the process was not started"
    return _worker.label(reports, reasons)


def label_reports(
    source: Source,
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
    rows = Rows([], [])
    parts = ordered_map(
        partial(_label, reasons=reasons is not None),
        chunks(source.reports, settings.chunk),
        threads if source.total > settings.chunk else 1,
        partial(_start, source.kind, source.root, settings, stanza),
    )
    for part in progress(parts, source.total, "report", lambda part: len(part.labels)):
        rows.labels.extend(part.labels)
        rows.reasons.extend(part.reasons)
    tally = Tally("reports read", "reports")
    for name, outcome, _ in rows.labels:
        if outcome in (LABELLED, EMPTY):
            tally.kept += 1
        else:
            tally.drop(outcome, [name], failed=True)
    tally.require_few(source.root, settings.max_failed_share)
    blank = (None,) * len(OBSERVATIONS)
    table = pd.DataFrame(
        [values or blank for *_, values in rows.labels], columns=list(OBSERVATIONS), dtype="float64"
    )
    counts = {name: Counter(map(NAMES.get, table[name].dropna())) for name in OBSERVATIONS}
    table.insert(0, source.id_name, [name for name, *_ in rows.labels])
    _write(table, output)
    if reasons is not None:
        given = pd.DataFrame(rows.reasons, columns=list(REASONS))
        _write(given if with_text else given.drop(columns=["phrase", "text"]), reasons)
    seconds = time.monotonic() - started
    summary = {
        "input": str(source.root),
        "kind": source.kind,
        "reports": source.total,
        "outcomes": dict(Counter(outcome for _, outcome, _ in rows.labels)),
        "labels": {
            name: {**found, "blank": source.total - found.total()} for name, found in counts.items()
        },
        "settings": settings.model_dump(mode="json"),
        "seconds": round(seconds, 1),
    }
    write_json(output.with_name(f"{output.name}.json"), summary)
    log.info(
        "%s: %d reports in %.1f s (%.0f a second); positive: %s",
        output,
        source.total,
        seconds,
        source.total / max(seconds, 1e-9),
        ", ".join(f"{name} {found['positive']}" for name, found in counts.items()),
    )
    return summary


def _write(table: pd.DataFrame, path: Path) -> None:
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False)
