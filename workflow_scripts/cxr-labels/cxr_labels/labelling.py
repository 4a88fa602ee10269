"""Labels of runs of reports, with the reasons behind them and what was read as which section."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxr_labels.headings import line_starts
from cxr_labels.labeller import counted, make_labeller
from cxr_labels.language import UNKNOWN_LANGUAGE, is_english
from cxr_labels.observations import NEGATIVE, OBSERVATIONS, POSITIVE, Labels
from cxr_labels.parsing import Parsed, ReportParser, labelled_sections, misses_headings
from cxr_labels.places import Places
from cxr_labels.report import RawReport
from cxr_labels.scope.accounting import Unread
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.sections import ParsedReport
from cxr_labels.sentences import make_splitter
from cxr_labels.settings import ReportSettings
from cxr_labels.statements import NO_STATEMENT, states_something

LABELLED, EMPTY = "labelled", "empty"
# Outcomes of reports that were read, but say nothing that could be labelled.
UNLABELLED = (EMPTY, UNKNOWN_LANGUAGE, NO_STATEMENT)
# A row of the reasons: an assertion, or (without observation) a section that was read or left out.
REASONS = (
    *("id", "section", "sentence", "start", "end", "text_start", "text_end", "observation"),
    *("value", "rule", "cue_start", "cue_end", "phrase", "text"),
)
MOST_STARTS = 100_000  # different line starts in memory
READ, LEFT_OUT = "section labelled", "section left out"
NOT_READ = "word not read"  # withholds No Finding


@dataclass
class LabelRows:
    """Labels of a run of reports (id, outcome, labels), rows of reasons, and counts.

    ``unread`` counts the words that alone withhold No Finding, by the report's id.
    ``read`` counts what was labelled, ``sections`` what was read as which section; ``unheaded``
    are the reports without a known heading of findings or impression, and ``starts`` the line
    starts in these. By their ids: ``addenda``, reports with an addendum, which is not labelled;
    ``reversed``, those whose addendum says the opposite; ``left_out``, those of which more than
    half the words are in no labelled section.
    """

    labels: list[tuple[str, str, Labels | None]] = field(default_factory=list)
    reasons: list[tuple[Any, ...]] = field(default_factory=list)
    unread: dict[str, int] = field(default_factory=dict)
    read: Counter[str] = field(default_factory=Counter)
    sections: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    unheaded: int = 0
    addenda: list[str] = field(default_factory=list)
    reversed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def count(self, later: "LabelRows") -> None:
        """Add what was counted of later reports; their labels and reasons are left out."""
        self.read.update(later.read)
        self.sections.update(later.sections)
        self.starts.update(later.starts)
        if len(self.starts) > MOST_STARTS:  # almost all of them stand in a single report
            self.starts = Counter(dict(self.starts.most_common(MOST_STARTS // 10)))
        self.unread |= later.unread
        self.unheaded += later.unheaded
        self.addenda += later.addenda
        self.reversed += later.reversed
        self.left_out += later.left_out


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
        split = iter(
            self._splitter.split([t for texts, _ in texts_by_report for t in texts.values()])
        )
        outcomes: list[str] = []
        sentences: list[dict[str, list[str]]] = []
        to_label: list[list[str]] = []
        for texts, outcome in texts_by_report:
            of_report = {name: next(split) for name in texts}
            if outcome == LABELLED:
                joined = _joined(of_report)
                outcome = self._outcome(joined)
            if outcome == LABELLED:
                to_label.append(joined)
            outcomes.append(outcome)
            sentences.append(of_report if outcome == LABELLED else {})
        labels = iter(counted(self._labeller, to_label))
        rows = LabelRows()
        for report, parse, outcome, of_report in zip(
            reports, parsed, outcomes, sentences, strict=True
        ):
            values, unread = next(labels) if of_report else (None, 0)
            rows.labels.append((report.study_id, outcome, values))
            if unread:
                rows.unread[report.study_id] = unread
            if parse.content is not None:
                self._count(rows, report, parse.content, values)
                if self._reasons:
                    rows.reasons += self._explain(report, parse.content, of_report)
        return rows

    def _outcome(self, sentences: Sequence[str]) -> str:
        if not sentences:
            return EMPTY
        if not is_english(sentences, self._settings.least_known):
            return UNKNOWN_LANGUAGE
        return LABELLED if states_something(sentences) else NO_STATEMENT

    def _texts(self, report: RawReport, parsed: Parsed) -> tuple[dict[str, str], str]:
        """The texts to label in order, by section, and the outcome."""
        contents = (report.text or "", *(report.sections or {}).values())
        if parsed.failure == "empty file" or not (report.failure or any(map(str.strip, contents))):
            return {}, EMPTY
        if parsed.content is None or parsed.failure is not None:
            return {}, str(parsed.failure)
        return labelled_sections(parsed.content, self._settings.text), LABELLED

    def _count(
        self, rows: LabelRows, report: RawReport, content: ParsedReport, values: Labels | None
    ) -> None:
        rows.sections.update(name for name, text in content.sections.items() if text)
        if report.text and misses_headings(content):
            rows.starts.update(line_starts(report.text))
            rows.unheaded += 1
        if values is None:
            return
        rows.read[content.outcome] += 1
        if report.text:
            labelled = " ".join(labelled_sections(content, self._settings.text).values())
            # Words are counted only where half of them may be left out.
            short = len(labelled) < 0.7 * len(report.text)
            if short and len(labelled.split()) < 0.5 * len(report.text.split()):
                rows.left_out.append(report.study_id)
        addendum = content.sections.get("addendum")
        if addendum:
            rows.addenda.append(report.study_id)
            (later,) = self._labeller.label(self._splitter.split([addendum]))
            if reverses(later, values):
                rows.reversed.append(report.study_id)

    def _explain(
        self, report: RawReport, content: ParsedReport, sentences: Mapping[str, list[str]]
    ) -> Iterable[tuple[Any, ...]]:
        """A row for each section, and one for each assertion."""
        assert isinstance(self._labeller, ScopeLabeller), "the network gives none"
        study, number = report.study_id, 0
        unread: dict[int, list[Unread]] = {}
        for at_sentence, word in self._labeller.unread(_joined(sentences)) if sentences else ():
            unread.setdefault(at_sentence, []).append(word)
        bodies = {name: body for name, body in content.sections.items() if body}
        bodies |= {name: content.conclusion for name in sentences if name not in bodies}
        for name in (*sentences, *(name for name in bodies if name not in sentences)):
            own = report.text if report.text is not None else (report.sections or {}).get(name)
            places = Places(own or bodies[name])
            rule = READ if name in sentences else LEFT_OUT
            span = places.section(bodies[name])
            yield (study, name, None, None, None, *span, None, None, rule, *[None] * 4)
            for text in sentences.get(name, ()):
                place = places.sentence(text)
                for word in unread.get(number, ()):
                    at = (word.start, word.end, *place.span(word.start, word.end))
                    yield (
                        *(study, name, number, *at, OBSERVATIONS[0], None, NOT_READ),
                        *(None, None, word.word, text),
                    )
                for r in self._labeller.explain([text]):
                    yield (
                        *(study, name, number, r.start, r.end, *place.span(r.start, r.end)),
                        *(r.observation, r.value, r.rule, r.cue_start, r.cue_end, r.phrase, text),
                    )
                number += 1


def _joined(sentences: Mapping[str, Sequence[str]]) -> list[str]:
    return [sentence for of_section in sentences.values() for sentence in of_section]


def reverses(addendum: Labels, report: Labels) -> bool:
    """True if an addendum denies what the report states, or states what it denies."""
    pairs = zip(addendum[1:], report[1:], strict=True)  # without No Finding
    return any(
        (later == POSITIVE and before != POSITIVE) or (later == NEGATIVE and before == POSITIVE)
        for later, before in pairs
    )
