"""Sections of a report, as MIMIC-CXR's section parser cuts them.

Follows MIMIC-CXR's public section parser (Johnson et al. 2019), from whose text the official labels
were read. A heading is a line that starts with one space, then capitals up to a colon; variants of
a heading count as one name; the last section of a name wins; an empty findings or impression
section does not count; a report that has neither is read from its last paragraph. The "conclusion"
is the first present of impression, findings, last paragraph and comparison. Headings and special
cases are data: ``rules/mimic_cxr``. In reports of other hospitals :mod:`.headings` finds the
headings. Three rules differ there: sections of one name are joined, unknown headings are text, and
a report without any heading is all impression.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from cxr_labels.headings import MAIN, OF_A_LINE, Heading, Headings
from cxr_labels.rules import read_rules
from cxr_labels.scope.mentions import find_mentions
from cxr_labels.scope.phrases import tokenize
from cxr_labels.sentences import ANSWERED_LINE, OPEN_LINE, QUOTES
from cxr_labels.settings import SectionSettings
from cxr_labels.spelling import Speller

# Possessive, so that a long line of capitals without a colon fails without backtracking.
HEADING = re.compile(r"\n ([A-Z ()/,-]++):\s")
PARAGRAPH_BREAK = "\n \n"

CONCLUSION_ORDER = ("impression", "findings", "last_paragraph", "comparison")
BLANK_LINE = re.compile(r"\n[ \t]*+\n")
# A line of this length may have been wrapped.
FOLLOW_UP = re.compile(r"\s*follow[- ]?up\b", re.IGNORECASE)
WRAPPED = 60
FINAL = re.compile(r"\b(?:final|attending|over-?read)\b[^\n.:]{0,20}[:\n]", re.IGNORECASE)
# What distinguishes a reading from a patient's history.
STATEMENT = re.compile(
    r"\b(?:is|are|there|no|not|normal|clear|unremarkable|seen|lungs?|heart|cardiac|mediastin\w+|lobe"
    r"|bases?|effusions?|stable|unchanged|enlarged|within)\b",
    re.IGNORECASE,
)
# A section of one line, and what stands behind it.
OF_SIGNATURE, REST = "signature", "rest"
FIRST_SENTENCE = re.compile(
    r"[^\n]*?(?:[^\s.]{2}(?<!\bdr)(?<!\bdrs)(?<!\bmr)(?<!\bms)(?<!\bmrs)(?<!\bst)(?<!prof)"
    r"|\b(?:dr|drs|prof)\.? [a-z])\.(?=[ \t]+\S)",
    re.IGNORECASE,
)
# Sections that stand behind the text of a report.
BEHIND = ("addendum", "notification", "recommendations", "signature")


class _Headings:
    """Published headings, known by their full name or by a word in them."""

    def __init__(self) -> None:
        data = read_rules("mimic_cxr/headings")
        self.names = {variant: name for name, row in data["known"].items() for variant in row}
        self.contained: list[str] = data["contained"]
        self.title = re.compile("|".join(map(re.escape, data["titles"])))
        self.speller = Speller(self.names)


_headings = _Headings()


class Section(NamedTuple):
    """One section: its normalised name, its text, and where the text starts in the report."""

    name: str
    text: str
    start: int


@dataclass(frozen=True)
class SpecialCase:
    """Where an oddly written study keeps its conclusion: a section's name, or character offsets."""

    section: str | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class ParsedReport:
    """A report's sections by name, its conclusion, and where that came from ("" = nowhere).

    ``unheaded``: no heading was found, and all of it counts as the impression.
    """

    sections: dict[str, str]
    conclusion: str
    conclusion_from: str
    unheaded: bool = False

    @property
    def outcome(self) -> str:
        """Which of the parser's cases this report is; counted in corpus.json."""
        has = [name for name in ("findings", "impression") if self.sections.get(name)]
        if self.unheaded:
            return "no heading, read whole"
        if self.conclusion_from.startswith("special case"):
            return self.conclusion_from if self.conclusion else "special case: no usable text"
        if has:
            return " and ".join(has) if len(has) == 2 else f"{has[0]} only"
        if self.conclusion:
            return f"{self.conclusion_from.replace('_', ' ')} only"
        return "no usable section"


@lru_cache(maxsize=2_000)
def section_name(heading: str, as_published: bool = False) -> str:
    """Normalise a heading ("FINDINS" -> "findings"); an unknown one comes back in lower case.

    Unless ``as_published``, an unknown heading is corrected by one typing error.
    """
    heading = heading.lower().strip()
    if as_published and heading == "ndication":
        return "impression"
    section = _headings.names.get(heading)
    if section:
        return section
    for name in _headings.contained:
        if name in heading:
            return name
    if _headings.title.search(heading):
        return "findings"
    if as_published:
        return heading
    return _headings.names.get(_headings.speller.correct(heading), heading)


def split_sections(text: str, settings: SectionSettings) -> list[Section]:
    """Split a report at its headings, in order; without a main section, cut its last paragraph.

    Text before the first heading is the section "preamble"; a report without any heading is one
    section "full report". A second heading on a line is text. So is one on the line below a
    heading that ends its own line: the line end between them is matched with the first.
    """
    headings = list(HEADING.finditer(text))
    if not headings:
        sections = [Section("full report", text, 0)]
    else:
        sections = [Section("preamble", text[: headings[0].start(1)], 0)]
    for number, heading in enumerate(headings, start=1):
        end = headings[number].start() if number < len(headings) else len(text)
        name, start = section_name(heading[1], settings.as_published), heading.end()
        body = text[start:end]
        if name not in MAIN or body.strip():
            sections.append(Section(name, body, start))
    if MAIN.isdisjoint([section.name for section in sections]):
        name, body, start = sections[-1]
        head, gap, tail = body.partition(PARAGRAPH_BREAK)
        if tail.strip() or (gap and settings.as_published):
            at = start + len(head) + len(gap)
            sections[-1:] = [Section(name, head, start), Section("last_paragraph", tail, at)]
    return sections


def conclude(sections: Mapping[str, str]) -> tuple[str, str]:
    """The conclusion text and the section it comes from; ("", "") when there is none."""
    for name in CONCLUSION_ORDER:
        if name in sections:
            return sections[name], name
    return "", ""


def parse_report(
    text: str, settings: SectionSettings, special_case: SpecialCase | None = None
) -> ParsedReport:
    """Parse a report of MIMIC-CXR's layout; of several sections of one name the last wins.

    Line ends of other systems count as one character, as offsets of special cases take them.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if settings.headings in ("any", "none"):
        return _parse_any(text, settings)
    sections = {name: body.strip() for name, body, _ in split_sections(text, settings)}
    if special_case is None:
        return ParsedReport(sections, *conclude(sections))
    if special_case.section is None:
        excerpt = text[special_case.start : special_case.end].strip()
        return ParsedReport(sections, excerpt, "special case: offsets")
    conclusion = sections.get(special_case.section, "")
    return ParsedReport(sections, conclusion, f"special case: {special_case.section}")


def _parse_any(text: str, settings: SectionSettings) -> ParsedReport:
    """The sections of a report of any hospital; a report without headings is its impression.

    Text that no heading of its own introduces is the findings if an impression follows, and
    otherwise the ``last_paragraph``. It is the text before the first heading, and the text that
    comes after a section's own.
    """
    headings = any_headings(settings).find(text) if settings.headings == "any" else []
    if any(heading.name == OF_SIGNATURE for heading in headings):
        pieces = (_ended(heading, text, end) for heading, end in _spans(headings, text))
        headings = _continued([heading for piece in pieces for heading in piece])
    if not headings:
        sections = {"impression": text.strip()} if text.strip() else {}
        return ParsedReport(sections, *conclude(sections), unheaded=bool(sections))
    # "Follow-up: no recurrence of pneumothorax." names the film, where nothing else is the reading.
    if FOLLOW_UP.match(text) and MAIN.isdisjoint(heading.name for heading in headings):
        headings[0] = headings[0]._replace(name="findings")
    sections = {"preamble": text[: headings[0].start].strip()}
    spans = _spans(headings, text)
    for (_, start, name), end in spans:
        body = text[start:end].strip()
        if body or name not in MAIN:
            previous = sections.get(name)
            sections[name] = f"{previous}\n\n{body}" if previous else body
    before = [span for span in spans if span[0].name not in BEHIND]
    main = not MAIN.isdisjoint(sections)
    if main:
        at = [heading.name for heading, _ in before if heading.name not in ("findings",)]
        before = before[: at.index("impression")] if "impression" in at else []
    if "findings" not in sections:
        rest = _headless(sections, text, before, main)
        if rest:
            sections["findings" if main else "last_paragraph"] = rest
    # A preliminary reading is the conclusion where nothing else is.
    preliminary = sections.get("wet_read")
    concluded = "impression" in sections or "last_paragraph" in sections
    if preliminary and not concluded and not FINAL.search(text):
        sections["impression"] = preliminary
    usable = {name: body for name, body in sections.items() if name != "comparison"}
    return ParsedReport(sections, *conclude(usable))


def _spans(headings: list[Heading], text: str) -> list[tuple[Heading, int]]:
    """The headings, each with the place where its section ends."""
    ends = [*(heading.start for heading in headings[1:]), len(text)]
    return list(zip(headings, ends, strict=False))  # one end too many if there are none


def _ended(heading: Heading, text: str, end: int) -> list[Heading]:
    """A signature or a field, which ends with its line, and what reads like a report behind it.

    Of a line that goes on ("Radiologist: Dr A. The heart is enlarged."), it is the first sentence.
    """
    if heading.name != OF_SIGNATURE:
        return [heading]
    body = text[heading.body : end]
    lead = len(body) - len(body.lstrip())
    line = body.find("\n", lead)
    sentence = FIRST_SENTENCE.match(body, lead)
    at = (
        sentence.end()
        if sentence and reads(body[sentence.end() : line if line > 0 else end])
        else line
    )
    if at < 0 or not reads(body[at:]):
        return [heading]
    return [heading, Heading(heading.body + at, heading.body + at, REST)]


def _continued(headings: list[Heading]) -> list[Heading]:
    """Text behind a signature goes on with the section before it, or begins the findings."""
    named: list[Heading] = []
    for heading in headings:
        main = next((h.name for h in reversed(named) if h.name in MAIN), "findings")
        named.append(heading._replace(name=main) if heading.name == REST else heading)
    return named


def reads(text: str) -> bool:
    """True if a text reads like a report: it has a verb or a state of one, or names a finding."""
    if STATEMENT.search(text):
        return True
    return bool(find_mentions([token.word for token in tokenize(text)]))


def _headless(
    sections: dict[str, str], text: str, spans: list[tuple[Heading, int]], main: bool
) -> str:
    """Remove the text without a heading of its own from ``sections`` and return it."""
    rest = ""
    for (_, start, name), end in reversed(spans):
        own, rest = _own(name, text[start:end], main)
        if rest:
            sections[name] = own
            break
    preamble = sections["preamble"]
    statement = preamble.rstrip(QUOTES)
    complete = statement.endswith(".") or ANSWERED_LINE.search(statement)
    if STATEMENT.search(preamble) and complete:
        rest = "\n\n".join(filter(None, (sections.pop("preamble"), rest)))
    return rest


def _own(name: str, body: str, main: bool) -> tuple[str, str]:
    """Return a section's own text, and what comes after it; ``main``: an impression follows.

    A section's own text is its first paragraph, or its first line in sections that have one line.
    If there is a single paragraph, it is the first line and the lines that continue it. If there is
    a single line and nothing else to read, it is the first sentence.
    """
    below = "\n" if name in OF_A_LINE and not main else BLANK_LINE
    own, *tail = re.split(below, body.strip(" \t"), maxsplit=1)
    rest = tail[0].strip() if tail else ""
    if rest and not own.strip() and not (name in OF_A_LINE and STATEMENT.match(rest)):
        # The heading is alone on its line: the next paragraph is its own, if another follows.
        first, *others = re.split(below, rest, maxsplit=1)
        if others or main:
            own, rest = first, "".join(others).strip()
    if rest or name == "wet_read":
        return own.strip(), rest
    lines = body.strip().split("\n")
    count, lower = 1, body.islower()
    while count < len(lines) and _goes_on(lines[count - 1].rstrip(), lines[count].lstrip(), lower):
        count += 1
    own, rest = "\n".join(lines[:count]), "\n".join(lines[count:])
    if not rest and not main:
        own, _, rest = body.strip().partition(". ")
        own += "." * bool(rest)
    # "… // r/o" / "pneumothorax": a finding alone begins a statement only with a capital.
    begins = STATEMENT.search(rest) or (rest.lstrip()[:1].isupper() and reads(rest))
    return (own.strip(), rest.strip()) if begins else (body.strip(), "")


def _goes_on(line: str, following: str, lower: bool) -> bool:
    """True if ``following`` continues ``line``, which was wrapped; ``lower``: of a text without
    capitals."""
    begins_amid = following[:1] == "?" or (following[:1].islower() and not lower)
    wrapped = len(line) >= WRAPPED or OPEN_LINE.search(line) or begins_amid
    return bool(wrapped) and not line.endswith(".")


def any_headings(settings: SectionSettings) -> Headings:
    """The headings that are known in any form, a hospital's own included."""
    return _cached_headings(tuple((name, tuple(row)) for name, row in settings.names.items()))


@lru_cache(maxsize=8)
def _cached_headings(hospital_names: tuple[tuple[str, tuple[str, ...]], ...]) -> Headings:
    return Headings(_headings.names, _headings.title, dict(hospital_names))


def labelled_report(sections: Mapping[str, str | None]) -> ParsedReport:
    """A report whose sections are given by the data set (Open-I); empty ones do not count."""
    filled = {name: text.strip() for name, text in sections.items() if text and text.strip()}
    return ParsedReport(filled, *conclude(filled))


@cache
def special_cases() -> dict[str, SpecialCase]:
    """The 54 special cases of MIMIC-CXR's parser by study id (without the leading 's')."""
    data = read_rules("mimic_cxr/special_cases")
    return {
        **{str(study): SpecialCase(section=name) for study, name in data["named"].items()},
        **{str(study): SpecialCase(None, *span) for study, span in data["offsets"].items()},
    }
