"""Sections of a report, by the conventions of MIMIC-CXR.

Written after the behaviour of MIMIC-CXR's public section parser, which made the text that the
data set's official labels were read from: a heading is a line that starts with one space and goes
on in capitals to a colon; spelling variants of a heading count as one name; the last section of a
name wins; an empty findings or impression section does not count; a report that has neither is
read from its last paragraph. The "conclusion" is the first present of impression, findings, last
paragraph and comparison. Heading misspellings are recognised by distance, not from a list.
"""

import ast
import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cxrflow.errors import InputError
from cxrflow.reports.settings import SectionSettings
from cxrflow.reports.spelling import Speller

# Possessive, so a long line of capitals without a colon is given up at once.
HEADING = re.compile(r"\n ([A-Z ()/,-]++):\s")
PARAGRAPH_BREAK = "\n \n"

CONCLUSION_ORDER = ("impression", "findings", "last_paragraph", "comparison")

SYNONYMS: dict[str, tuple[str, ...]] = {
    "impression": (
        "impression",
        "conclusion",
        "findings and impression",
        "findings/impression",
        "findings/ impression",
    ),
    "findings": ("findings", "finding", "reference findings", "chest, two views"),
    "comparison": (
        "comparison",
        "comparisons",
        "comparison exam",
        "comparison film",
        "reference exam",
    ),
    "indication": (
        "indication",
        "clinical indication",
        "reason for exam",
        "reason for examination",
    ),
    "history": ("history", "clinical history", "clinical information", "patient history", "pfi"),
    "examination": ("examination", "exam", "type of examination"),
    "technique": ("technique",),
    "recommendations": ("recommendations", "recommendation", "recommendation(s)"),
    "notification": ("notification",),
    "addendum": ("addendum",),
    "wet_read": ("wet read", "wetread"),
    "comment": ("comment",),
    "note": ("note",),
    "date": ("date",),
}
SECTION_NAMES = (*SYNONYMS, "last_paragraph")
NAME_OF = {variant: name for name, variants in SYNONYMS.items() for variant in variants}

# Tried in this order inside a heading that is not known as a whole.
CONTAINED = ("impression", "findings", "history", "comparison", "addendum")

# A heading that names the examination stands above the findings ("CHEST, PA AND LATERAL:").
EXAMINATION_TITLE = re.compile(
    r"chest|portable|ribs|bone window|one view|two views"
    r"|(?:frontal|lateral|pa|ap) view|frontal (?:and|upright|semi-upright)"
    r"|(?:pa|ap) and lat|lateral and (?:pa|ap)"
)

_speller = Speller(
    ("impression", "conclusion", "finding", "findings", "indication", "comparison", "comparisons")
)


@dataclass(frozen=True)
class Section:
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
    """A report's sections by name, its conclusion, and where that came from ("" = nowhere)."""

    sections: dict[str, str]
    conclusion: str
    conclusion_from: str

    @property
    def outcome(self) -> str:
        """Which of the parser's cases this report is; counted in corpus.json."""
        has = [name for name in ("findings", "impression") if self.sections.get(name)]
        if self.conclusion_from.startswith("special case"):
            return self.conclusion_from if self.conclusion else "special case: no usable text"
        if has:
            return " and ".join(has) if len(has) == 2 else f"{has[0]} only"
        if self.conclusion:
            return f"{self.conclusion_from.replace('_', ' ')} only"
        return "no usable section"


@lru_cache(maxsize=20_000)
def section_name(heading: str, published_ndication: bool = False) -> str:
    """Normalise a heading ("FINDINS" -> "findings"); an unknown one comes back in lower case."""
    heading = heading.lower().strip()
    if published_ndication and heading == "ndication":
        return "impression"
    known = NAME_OF.get(heading) or NAME_OF.get(_speller.correct(heading))
    if known:
        return known
    for name in CONTAINED:
        if name in heading:
            return name
    return "findings" if EXAMINATION_TITLE.search(heading) else heading


def split_sections(text: str, published_ndication: bool = False) -> list[Section]:
    """Split a report at its headings, in order, with the fall-back to the last paragraph.

    Text before the first heading is the section "preamble"; a report without any heading is one
    section "full report". After a heading the search goes on beyond the end of its line.
    """
    found = HEADING.search(text)
    if not found:
        sections = [Section("full report", text, 0)]
    else:
        sections = [Section("preamble", text[: found.start(1)], 0)]
    while found:
        name, start = section_name(found.group(1), published_ndication), found.end()
        line_end = text.find("\n", start)
        found = HEADING.search(text, start if line_end < 0 else line_end)
        sections.append(Section(name, text[start : found.start() if found else len(text)], start))
    sections = [s for s in sections if s.name not in ("impression", "findings") or s.text.strip()]
    if not {"impression", "findings"} & {s.name for s in sections}:
        last = sections[-1]
        head, gap, tail = last.text.partition(PARAGRAPH_BREAK)
        if gap:
            sections[-1] = Section(last.name, head, last.start)
            at = last.start + len(head) + len(gap)
            sections.append(Section("last_paragraph", tail, at))
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
    """Parse a report of MIMIC-CXR's layout; of several sections of one name the last wins."""
    parts = split_sections(text, settings.published_ndication)
    sections = {part.name: part.text.strip() for part in parts}
    if special_case is None:
        return ParsedReport(sections, *conclude(sections))
    if special_case.section is None:
        excerpt = text[special_case.start : special_case.end].strip()
        return ParsedReport(sections, excerpt, "special case: offsets")
    named = sections.get(special_case.section, "")
    return ParsedReport(sections, named, f"special case: {special_case.section}")


def labelled_report(sections: Mapping[str, str | None]) -> ParsedReport:
    """A report whose sections are given by the data set (Open-I); empty ones do not count."""
    filled = {name: text.strip() for name, text in sections.items() if text and text.strip()}
    return ParsedReport(filled, *conclude(filled))


def read_special_cases(path: str | Path) -> dict[str, SpecialCase]:
    """Read special cases by study id (without the leading 's').

    ``path`` is a CSV with columns study_id,section,start,end (section, or start and end), or the
    published ``section_parser.py``: its two dictionaries are taken from the syntax tree.
    """
    path = Path(path)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the special cases ({error})") from None
    if path.suffix == ".py":
        return _cases_in_source(path, content)
    cases: dict[str, SpecialCase] = {}
    rows = csv.DictReader(content.splitlines())
    missing = {"study_id", "section", "start", "end"} - set(rows.fieldnames or ())
    if missing:
        raise InputError(f"{path}: column '{sorted(missing)[0]}' is missing")
    for row in rows:
        study = (row["study_id"] or "").strip().removeprefix("s")
        try:
            cases[study] = (
                SpecialCase(section=row["section"].strip().lower())
                if (row["section"] or "").strip()
                else SpecialCase(start=int(row["start"]), end=int(row["end"]))
            )
        except (TypeError, ValueError):
            raise InputError(
                f"{path}: study {study}: expected a section or whole numbers start and end"
            ) from None
    return cases


def _cases_in_source(path: Path, content: str) -> dict[str, SpecialCase]:
    cases: dict[str, SpecialCase] = {}
    try:
        tree = ast.parse(content)
    except SyntaxError:
        raise InputError(f"{path}: not Python source") from None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        try:
            values = ast.literal_eval(node)
        except ValueError:
            continue
        for key, value in values.items():
            if not (isinstance(key, str) and re.fullmatch(r"s\d{8}", key)):
                continue
            if isinstance(value, str):
                cases[key[1:]] = SpecialCase(section=section_name(value))
            elif isinstance(value, list) and len(value) == 2:
                cases[key[1:]] = SpecialCase(start=int(value[0]), end=int(value[1]))
    if not cases:
        raise InputError(f"{path}: holds no special cases (keys like s50000000)")
    return cases
