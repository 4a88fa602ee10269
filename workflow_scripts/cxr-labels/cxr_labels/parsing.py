"""From a published report to its sections, or to the reason why it has none.

The first steps of every program that reads reports, in this order: refuse too long a text, bring
its characters into their normal form (:mod:`cxr_labels.characters`; not where MIMIC-CXR's parser
is followed ``as_published``), correct spelling, cut into sections, take the conclusion. Follows
BioViL (section 3, "MIMIC-CXR"), whose reports went through MIMIC-CXR's section parser and a public
list of spelling corrections.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from cxr_files.atomic import is_synthetic
from cxr_files.drops import Tally
from cxr_files.errors import InputError
from cxr_labels.characters import normal_text, normalised
from cxr_labels.containers import without_keys
from cxr_labels.headings import MAIN, frequent, hint
from cxr_labels.normal_text import NormalText
from cxr_labels.report import RawReport
from cxr_labels.sections import ParsedReport, labelled_report, parse_report, special_cases
from cxr_labels.settings import ReportSettings
from cxr_labels.typos import TypoList, read_typo_list

log = logging.getLogger(__name__)

NOTHING = ("no usable section", "special case: no usable text")


class Parsed(NamedTuple):
    """Sections (None: not parsed), the reason if the report is unusable, and corrected words."""

    content: ParsedReport | None
    failure: str | None
    typos: int = 0


class ReportParser:
    """Corrects and parses reports; holds the list of corrections that the settings name.

    The special cases hold for the real MIMIC-CXR alone: a synthetic copy draws ids from the same
    range and may hit one of them.

    Raises:
        InputError: the list that the settings name cannot be read.
    """

    def __init__(self, settings: ReportSettings, layout: str, root: str | Path):
        self._settings = settings.sections
        self._typos = read_typo_list(settings.typo_list) if settings.typo_list else TypoList({})
        real = layout == "mimic_cxr" and not is_synthetic(root)
        self._cases = special_cases() if real else {}

    def parse(self, report: RawReport) -> Parsed:
        """The report's sections; one that came with a failure keeps it."""
        failure = report.failure or self._too_long(report)
        if failure is not None:
            return Parsed(None, failure)
        parsed = self._sections(report)
        content, failure = parsed.content, parsed.failure
        if content is not None and failure is None and content.outcome in NOTHING:
            failure = content.outcome
        return parsed._replace(failure=failure)

    def _too_long(self, report: RawReport) -> str | None:
        texts = [report.text] if report.text is not None else (report.sections or {}).values()
        limit = self._settings.max_characters
        return f"longer than {limit} characters" if sum(map(len, texts)) > limit else None

    def _sections(self, report: RawReport) -> Parsed:
        study, settings, typos = report.study_id.removeprefix("s"), self._settings, 0
        if report.text is None:
            sections = {}
            for name, text in (report.sections or {}).items():
                name = "impression" if name == "notes" else name
                sections[name], changed = self._typos.correct(study, normalised(text))
                typos += changed
            return Parsed(labelled_report(sections), None, typos)
        case = self._cases.get(study)
        if case is not None and case.section is None:
            # Offsets count characters of the published text, so corrections come after the cut.
            cut = parse_report(report.text, settings, case)
            conclusion, typos = self._typos.correct(study, normalised(cut.conclusion))
            return Parsed(ParsedReport(cut.sections, conclusion, cut.conclusion_from), None, typos)
        normal = NormalText(report.text) if settings.as_published else normal_text(report.text)
        if normal.failure is not None:
            return Parsed(None, normal.failure)
        text = normal.text if settings.headings == "any" else without_keys(normal.text)
        text, typos = self._typos.correct(study, text)
        content = parse_report(text, settings, case)
        nowhere = normal.container is not None and content.outcome in NOTHING
        failure = f"{normal.container} without a known section" if nowhere else None
        return Parsed(content, failure, typos)


def labelled_sections(
    content: ParsedReport, choice: Literal["conclusion", "findings_and_impression"] | None
) -> dict[str, str]:
    """Texts to label by ``labels.text``, by name; the conclusion if both sections lack letters.

    ``choice`` comes from ``ReportSettings.of_layout``.
    """
    assert choice is not None, "the layout was not asked"
    if choice == "findings_and_impression":
        sections = ("findings", "impression")
        texts = {str(name): content.sections[name] for name in sections if name in content.sections}
        if any(character.isalpha() for text in texts.values() for character in text):
            return texts
    return {content.conclusion_from: content.conclusion}


def misses_headings(content: ParsedReport) -> bool:
    """True if no known heading of findings or impression was found."""
    return content.unheaded or MAIN.isdisjoint(content.sections)


def warn_of_headings(settings: ReportSettings, starts: Mapping[str, int], reports: int) -> None:
    """Warn of ``reports`` without known headings, if line starts are common among them."""
    if frequent(starts, reports):
        advice = hint(settings.sections.headings, starts, reports)
        log.warning("%d reports have no heading of findings or impression; %s", reports, advice)


def require_few(
    tally: Tally, root: str | Path, settings: ReportSettings, starts: Mapping[str, int]
) -> None:
    """End the program where too many reports are unusable; ``starts``: see :func:`.hint`.

    Raises:
        InputError: with the expected form of headings, where reports lack these.
    """
    unread = sum(drop.count for drop in tally.drops if drop.reason in NOTHING)
    try:
        tally.require_few(root, settings.max_failed_share)
    except InputError as error:
        if unread:
            advice = hint(settings.sections.headings, starts, unread)
            raise InputError(f"{error}; {advice}") from None
        raise
