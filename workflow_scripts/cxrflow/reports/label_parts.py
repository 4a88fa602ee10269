"""Labels of a run of reports, kept as a file each so that a killed run goes on.

A part's name tells from what it was made: the run's identity (settings, files they name, code)
and the content of its reports. A part that is there is whole and is what would be made again.
"""

import contextlib
import fcntl
import glob
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxrflow.errors import PassingError
from cxrflow.files import atomic_path, fingerprint, is_synthetic
from cxrflow.outputs import MARK, claim_folder, remove_folder
from cxrflow.reports.label_input import Item, Source, open_items
from cxrflow.reports.labels.engines import make_labeller
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.parsing import ReportParser, labelled_sections
from cxrflow.reports.sections import HEADING
from cxrflow.reports.sentences import make_splitter
from cxrflow.reports.settings import ReportSettings
from cxrflow.reports.texts import RawReport, Reference

LABELLED, EMPTY = "labelled", "empty"
PART = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.float64()) for name in OBSERVATIONS),
        ("outcome", pa.string()),
        ("unread", pa.int32()),
    ]
)
REASONS = pa.schema(
    [
        ("id", pa.string()),
        ("sentence", pa.int32()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("observation", pa.string()),
        ("value", pa.int8()),
        ("rule", pa.string()),
        ("cue_start", pa.int32()),
        ("cue_end", pa.int32()),
    ]
)
REASONS_WITH_TEXT = pa.schema([*REASONS, ("phrase", pa.string()), ("text", pa.string())])


@dataclass(frozen=True)
class Job:
    """Everything a process needs to label chunks of a source."""

    kind: str
    root: Path
    settings: ReportSettings
    stanza: str | None
    reasons: pa.Schema | None
    folder: Path
    identity: str


def _stamps(path: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of a file, or of all files below a folder."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    stats = [(str(p), p.stat()) for p in files if p.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _code() -> str:
    """A digest of this package's files: rules, phrases and models' code."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def identity(
    source: Source, settings: ReportSettings, stanza: str | None, reasons: pa.Schema | None
) -> str:
    """What a part depends on besides its reports; the limit of failures changes no label."""
    values = settings.model_dump(mode="json", exclude={"max_failed_share"})
    labels = settings.labels
    lists = (settings.typo_list, settings.sections.special_cases_file)
    models = (stanza, labels.parser, labels.parses, labels.chexbert)
    stamps = [_stamps(Path(path)) for path in (*lists, *models) if path]
    columns = reasons.names if reasons is not None else None
    synthetic = is_synthetic(source.root)
    return fingerprint([source.kind, synthetic, values, stamps, columns, _code()])


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder of parts for this process alone; a second one leaves with a clear line.

    Without a part in it the folder is removed in the end.
    """
    claim_folder(folder, "finished labels")
    with open(folder / "lock", "a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PassingError(
                f"{folder}: another process is writing these labels; wait for it or end it"
            ) from None
        try:
            yield
        finally:
            if not any(folder.glob("*.arrow")):
                remove_folder(folder)


def remove_others(folder: Path, kept: str, outputs: Sequence[Path]) -> None:
    """Remove parts of other settings or code, and what killed processes left half written."""
    for path in folder.iterdir():
        if path.name not in ("lock", MARK) and not path.name.startswith(kept):
            path.unlink()
    for output in outputs:
        for half in output.parent.glob(f".{glob.escape(output.name)}.*.partial"):
            half.unlink()


def read_part(path: Path) -> pa.Table:
    """A part's table."""
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def reasons_of(part: Path) -> Path:
    """The file of a part's reasons."""
    return part.with_suffix(".reasons")


class Worker:
    """Reads, splits and labels chunks of reports and writes a part for each."""

    def __init__(self, job: Job):
        settings = job.settings
        self._job = job
        self._reader = open_items(job.kind, job.root)
        self._parser = ReportParser(settings, job.kind, job.root)
        self._splitter = make_splitter(settings.splitter, job.stanza)
        self._labeller = make_labeller(settings.labels)
        if job.reasons is not None:
            # An engine without reasons says so before any work is done.
            self._labeller.explain([])

    def part(self, number: int, items: Sequence[Item]) -> Path:
        """The file of the chunk's labels; made unless it is there."""
        reports = [self._read(item) for item in items]
        digest = hashlib.sha256()
        for report in reports:
            digest.update(repr(report).encode("utf-8", "surrogatepass"))
        name = f"{self._job.identity}-{number:07d}-{digest.hexdigest()[:16]}.arrow"
        path = self._job.folder / name
        if not path.exists():
            labels, reasons = self._label(reports)
            # The labels last: where they are, the reasons are too.
            if self._job.reasons is not None:
                _write(reasons_of(path), reasons, self._job.reasons)
            _write(path, labels, PART)
        return path

    def _read(self, item: Item) -> RawReport:
        if isinstance(item, Reference):
            assert self._reader is not None, "a table has no references"
            return self._reader.read(item)
        return item

    def _texts(self, report: RawReport) -> tuple[list[str], str]:
        """The texts to label in order, and the outcome."""
        if self._job.kind == "table" or (
            self._job.kind == "files" and report.text and not HEADING.search(report.text)
        ):
            text, failure = self._parser.correct(report)
            return [text], failure or LABELLED
        parsed = self._parser.parse(report)
        if parsed.content is None or parsed.failure is not None:
            failure = parsed.failure or LABELLED
            return [], EMPTY if failure == "empty file" else failure
        sections = labelled_sections(parsed.content, self._job.settings.labels.text)
        return list(sections.values()), LABELLED

    def _sentences(self, reports: Sequence[RawReport]) -> tuple[list[list[str]], list[str]]:
        """Each report's sentences and outcome; without a sentence there is nothing to label."""
        found = [self._texts(report) for report in reports]
        split = iter(self._splitter.split([text for texts, _ in found for text in texts]))
        sentences = [[s for _ in texts for s in next(split)] for texts, _ in found]
        outcomes = [
            EMPTY if outcome == LABELLED and not of_report else outcome
            for (_, outcome), of_report in zip(found, sentences, strict=True)
        ]
        return sentences, outcomes

    def _label(self, reports: Sequence[RawReport]) -> tuple[list[list[Any]], list[list[Any]]]:
        """Columns of the labels and of the reasons."""
        sentences, outcomes = self._sentences(reports)
        labelled = iter(self._labeller.label([s for s in sentences if s]))
        rows: list[tuple[Any, ...]] = []
        for report, of_report, outcome in zip(reports, sentences, outcomes, strict=True):
            if of_report:
                labels = next(labelled)
                values = [None if math.isnan(value) else value for value in labels.values]
                rows.append((report.study_id, *values, outcome, labels.unread))
            else:
                rows.append((report.study_id, *[None] * len(OBSERVATIONS), outcome, 0))
        reasons = []
        if self._job.reasons is not None:
            for report, of_report in zip(reports, sentences, strict=True):
                for r in self._labeller.explain(of_report):
                    spans = (r.sentence, r.start, r.end)
                    said = (r.observation, r.value, r.rule, r.cue_start, r.cue_end)
                    row = (report.study_id, *spans, *said, r.phrase, of_report[r.sentence])
                    reasons.append(row[: len(self._job.reasons)])
        return _columns(rows, len(PART)), _columns(reasons, len(self._job.reasons or ()))


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width


def _write(path: Path, columns: Sequence[Sequence[Any]], schema: pa.Schema) -> None:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_file(file, schema) as writer,
    ):
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
