"""From reports to the rows of the corpus: corrections, sections, sentences, labels.

A ``Processor`` lives in each process; ``process`` turns a chunk of some hundred references into
rows of all tables.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from cxr_labels.headings import MAIN, line_starts
from cxr_labels.labeller import counted, make_labeller
from cxr_labels.language import UNKNOWN_LANGUAGE, is_english
from cxr_labels.observations import Labels
from cxr_labels.parsing import ReportParser, labelled_sections, misses_headings
from cxr_labels.report import RawReport
from cxr_labels.sections import ParsedReport, any_headings
from cxr_labels.sentences import make_splitter
from cxr_labels.settings import ReportSettings, SectionName
from cxr_labels.statements import NO_STATEMENT, states_something
from cxrflow.reports.texts import Reference, open_reader

# Sections that become columns; others only bound these.
SPLIT = ("findings", "impression", "last_paragraph")
KEPT = tuple(dict.fromkeys([*SPLIT, *get_args(SectionName)]))


@dataclass
class CorpusRows:
    """Rows of the tables for a run of reports, and failures as (study id, reason)."""

    sections: list[dict[str, str | None]] = field(default_factory=list)
    sentences: list[tuple[str, str, int, str]] = field(default_factory=list)
    labels: list[tuple[str, Labels]] = field(default_factory=list)
    documents: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    typos: int = 0
    unlabelled: list[tuple[str, str]] = field(default_factory=list)  # (study id, reason)
    unheaded: int = 0  # reports whose findings and impression have no known heading
    starts: Counter[str] = field(default_factory=Counter)  # of their lines
    other_forms: int = 0  # reports whose findings and impression have headings of another form
    addenda: int = 0
    withheld: int = 0  # reports that lack No Finding for unread words alone


class Processor:
    """Reads, parses, splits and labels reports of one data set."""

    def __init__(self, settings: ReportSettings, layout: str, root: str, stanza: str | None):
        self._settings = settings
        self._reader = open_reader(layout, root)
        self._splitter = make_splitter(settings.splitter, stanza)
        self._labeller = make_labeller(settings.labels)
        self._parser = ReportParser(settings, layout, root)

    def process(self, references: Sequence[Reference]) -> CorpusRows:
        """The rows of these reports, in order."""
        rows = CorpusRows()
        parsed: list[tuple[RawReport, ParsedReport]] = []
        for reference in references:
            report = self._reader.read(reference)
            content, failure, typos = self._parser.parse(report)
            rows.typos += typos
            if failure is not None:
                rows.failures.append((report.study_id, failure))
            if report.text and content is not None and misses_headings(content):
                rows.unheaded += 1
                rows.starts.update(line_starts(report.text))
                if self._settings.sections.headings == "mimic_cxr":
                    headings = any_headings(self._settings.sections).find(report.text)
                    rows.other_forms += not MAIN.isdisjoint(heading.name for heading in headings)
            if content is None:
                rows.sections.append(_section_row(report, None, str(failure)))
            else:
                rows.sections.append(_section_row(report, content, content.outcome))
                rows.addenda += bool(content.sections.get("addendum"))
                parsed.append((report, content))
        self._split_and_label(parsed, rows)
        return rows

    def _split_and_label(
        self, parsed: list[tuple[RawReport, ParsedReport]], rows: CorpusRows
    ) -> None:
        jobs = [
            (i, name, text)
            for i, (_, content) in enumerate(parsed)
            for name, text in _texts_to_split(content)
        ]
        split = self._splitter.split([text for _, _, text in jobs])
        by_report: list[dict[str, list[str]]] = [{} for _ in parsed]
        for (i, name, _), sentences in zip(jobs, split, strict=True):
            by_report[i][name] = sentences
        choice = self._settings.labels.text
        to_label = [
            [s for name in labelled_sections(content, choice) for s in sentences_of.get(name, ())]
            for (_, content), sentences_of in zip(parsed, by_report, strict=True)
        ]
        for number, sentences in enumerate(to_label):
            study = parsed[number][0].study_id
            if not sentences:
                continue
            if not is_english(sentences, self._settings.labels.least_known):
                rows.unlabelled.append((study, UNKNOWN_LANGUAGE))
                to_label[number] = []
            elif not states_something(sentences):
                rows.unlabelled.append((study, NO_STATEMENT))
                to_label[number] = []
        label_rows = counted(self._labeller, to_label)
        for (report, content), sentences_of, labelled, (labels, unread) in zip(
            parsed, by_report, to_label, label_rows, strict=True
        ):
            study = report.study_id
            for name in SPLIT:
                for index, sentence in enumerate(sentences_of.get(name, ())):
                    rows.sentences.append((study, name, index, sentence))
            if labelled:
                rows.labels.append((study, labels))
                rows.withheld += unread > 0
            names = [name for name in ("findings", "impression") if name in content.sections]
            texts = [content.sections[name] for name in names] or [content.conclusion]
            document = "\n".join(" ".join(text.split()) for text in texts)
            if document:
                rows.documents.append((study, document))


def _texts_to_split(content: ParsedReport) -> list[tuple[str, str]]:
    texts = [(name, content.sections[name]) for name in SPLIT if name in content.sections]
    if content.conclusion and content.conclusion_from not in SPLIT:
        texts.append((content.conclusion_from, content.conclusion))
    return texts


def _section_row(
    report: RawReport, content: ParsedReport | None, outcome: str
) -> dict[str, str | None]:
    row: dict[str, str | None] = {"study_id": report.study_id, "subject_id": report.subject_id}
    for name in KEPT:
        row[name] = (content.sections.get(name) or None) if content else None
    row["conclusion"] = (content.conclusion or None) if content else None
    row["conclusion_from"] = (content.conclusion_from or None) if content else None
    row["outcome"] = outcome
    return row
