"""Headings of reports of any hospital, in any form.

A heading is a known name before a colon or a dash between blanks: at a line's start in any case,
flush left or not, with or without list numbers and marks around it; or alone on its line; in
capitals also before other text. In the middle of a line, where the line breaks of a report were
lost, it is in capitals, or it follows a stop. The name of an examination ("XR Chest:") begins the
findings. Known are the names in ``rules/headings.yaml``, those of MIMIC-CXR's parser, and a
hospital's own (``sections.names``). Other names before a colon ("Left lung:") are text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cxr_labels.containers import KEY, MARK, WRAPPING, key_name
from cxr_labels.rules import read_rules
from cxr_labels.spelling import Speller

MAIN = frozenset(("impression", "findings"))
OPENING = ("organ", "title")
FIELD = "field"  # a value of a container that is in no section
# Sections of one line; the lines below it belong to another section.
OF_A_LINE = ("comparison", "examination", "technique", "date")
LONGEST, MOST_WORDS = 60, 6
LINE = re.compile(r"[^\n]++")
COLON = re.compile(r"[:：](?:[*_]++|\s?-++(?=\s))?|-(?<=\s-)-*+(?=\s)")
# Headings that begin inside a line with no stop before them: "cough Findings: clear lungs".
PLAIN_WITHIN = frozenset(("Findings", "Impression", "Conclusion", "Opinion"))
ALPHANUMERIC = re.compile(r"[a-z]+|\d+")
AROUND = " \t*#_=~>•-–—.:：[]\"'"
NUMBER = re.compile(r"\(?\d{1,2}[.)]\s*")
WORD = re.compile(r"\S++")
# Capitals before a dash, or before a word that has others: "FINDINGS - …", "FINDINGS The heart".
CAPITALS = re.compile(r"[\s\"']*+((?:[A-Z]{2,}\s++){1,3})(?:[-–—]++\s++|(?=[A-Z0-9][a-z.)]))")
# "Findings are as follows:", "Hx as per request:"
AS_GIVEN = re.compile(r" (?:(?:is|are) )?as (?:follows|below|given|stated|provided|per [a-z ]+)$")
JOINED = re.compile(r"/|&| and ")
STOP = re.compile(r"[.;!?](?:\s|$)")
ENDS = ".!?;)]:："
SHOWN = 4


class Heading(NamedTuple):
    """Offsets of a heading and of its section's text, and the section's name."""

    start: int
    body: int
    name: str


def _amid(text: str, start: int) -> bool:
    """True if words stand before ``start`` on its line."""
    return bool(text[text.rfind("\n", 0, start) + 1 : start].strip())


def _flattened(rows: Iterable[Iterable[str]]) -> set[str]:
    return {name for row in rows for name in row}


class Headings:
    """Finder of headings: names of the lists, of MIMIC-CXR, and a hospital's own by section."""

    def __init__(
        self,
        published: Mapping[str, str],
        titles: re.Pattern[str],
        hospital_names: Mapping[str, Iterable[str]],
    ):
        data = read_rules("headings")
        self._sections = dict(published)
        for section, rows in data["known"].items():
            self._sections.update(dict.fromkeys(_flattened(rows), section))
        for section, variants in hospital_names.items():
            self._sections.update({" ".join(name.lower().split()): section for name in variants})
        self._contained: list[str] = data["contained"]
        self._organs = _flattened(data["organs"]) - set(self._sections)
        self._titles = titles
        self._title_words = _flattened(data["titles"]["words"])
        self._title_names = frozenset(data["titles"]["names"])
        self._speller = Speller((k for k in self._sections if " " not in k), self._organs)
        self._names: dict[str, str | None] = {}

    def find(self, text: str) -> list[Heading]:
        """The headings of a report in order.

        An organ's name or the title of an examination begins the findings, unless findings or
        impression are open; an organ's name is part of their text, and so is all that stands
        before it where no other heading does.
        """
        headings: list[Heading] = []
        for heading in self._keyed(text) if MARK in text else self._candidates(text):
            start, body, name = heading
            within = bool(headings) and headings[-1].name in MAIN
            if name in OPENING:
                if not within:
                    first = start if headings else 0  # nothing stands before a body but its begin
                    at = (first, first) if name == "organ" else (start, body)
                    headings.append(Heading(*at, "findings"))
                continue
            # "No edema. Comparison: a film of last week shows …" goes on.
            goes_on = within and name in OF_A_LINE and _amid(text, start)
            if not goes_on or text[start:body].isupper():
                headings.append(heading)
        return headings

    def _keyed(self, text: str) -> Iterator[Heading]:
        """The headings of a text from a container: its keys, and headings inside their values."""
        keys = list(KEY.finditer(text))
        yield from self._candidates(text[: keys[0].start()] if keys else text)
        for key, following in zip(keys, [*keys[1:], None], strict=True):
            name = self._of_path(key[1].split("/"))
            yield Heading(key.start(), key.end(), name)
            end = following.start() if following else len(text)
            if name in MAIN:  # other values are no reports
                for heading in self._candidates(text[key.end() : end]):
                    at = (heading.start + key.end(), heading.body + key.end())
                    yield Heading(*at, heading.name)

    def _of_path(self, path: Iterable[str]) -> str:
        """The section of a value: the innermost known name of its path of keys.

        ``FIELD`` if no name is known; the findings if all names only wrap others.
        """
        names = [name for name in map(key_name, path) if name and name not in WRAPPING]
        for name in reversed(names):
            section = self._sections.get(name)
            section = section or next((n for n in self._contained if n in name.split()), None)
            if section is not None:
                return section
        return FIELD if names else "findings"

    def _candidates(self, text: str) -> Iterator[Heading]:
        lower = text.islower()  # capitals, which mark a heading amid a text, tell nothing
        for line in LINE.finditer(text):
            at, end, words = line.start(), line.end(), line[0]
            begin = 0
            if (capitals := CAPITALS.match(words)) and (name := self._section_of(capitals[1])):
                begin = capitals.end()
                yield Heading(at, at + begin, name)
            marks = list(COLON.finditer(words, begin)) if ":" in words or " -" in words else []
            alone = not marks and not begin and len(words) <= LONGEST
            if alone and (name := self._alone(words, lower)):
                yield Heading(at, end, name)
            for mark in marks:
                head = words[max(begin, mark.start() - LONGEST) : mark.start()]
                start = 0
                at_start = begin == 0 and mark.start() <= LONGEST
                dash = mark[0].startswith("-")
                name = self._at_start(head) if at_start else None
                known = name == "organ" or self._section_of(head.strip(AROUND))
                if dash and (name == "title" or not known):
                    name = None
                if name is None:
                    name, start = self._inside(head, mark.start() - len(head), lower)
                if name is not None:
                    yield Heading(at + start, at + mark.end(), name)
                    begin = mark.end()

    def _section_of(self, name: str) -> str | None:
        name = " ".join(name.lower().split())
        if " as " in name:
            name = AS_GIVEN.sub("", name)
        return self._sections.get(name)

    def _alone(self, line: str, lower: bool) -> str | None:
        if line.rstrip()[-1:] in (".", ","):
            return None
        bare = line.strip(AROUND)
        if number := NUMBER.match(bare):
            bare = bare[number.end() :].strip(AROUND)
        begins = bare[:1].isupper() or lower
        name = self._section_of(bare) if begins or line.lstrip()[:1] == "#" else None
        if name is None and begins and self._is_title(bare.lower()):
            name = "title"
        return name

    def _is_title(self, name: str) -> bool:
        """True if the name consists of an examination's words."""
        words = ALPHANUMERIC.findall(name)
        return self._title_words.issuperset(words) and not self._title_names.isdisjoint(words)

    def _at_start(self, head: str) -> str | None:
        name = self._names.get(head, "")
        if name == "":
            if len(self._names) > 20_000:
                self._names.clear()
            name = self._names[head] = self._meaning(head)
        return name

    def _meaning(self, head: str) -> str | None:
        bare = NUMBER.sub("", head.strip(AROUND), count=1).strip(AROUND)
        lower = " ".join(bare.lower().split())
        name = self._section_of(lower) or self._sections.get(self._speller.correct(lower))
        if name is None and lower.endswith(")"):  # "Reason for examination (clinical question)"
            name = self._sections.get(lower.partition("(")[0].rstrip())
        if name is not None or not lower:
            return name
        if lower in self._organs:
            return "organ"
        names = [self._sections.get(words.strip()) for words in JOINED.split(lower)]
        if all(names):  # "Clinical History/Indication"
            return next((name for name in ("impression", "findings") if name in names), names[-1])
        if self._is_title(lower):
            return "title"
        if bare.upper() == bare and len(bare.split()) <= MOST_WORDS and not STOP.search(bare):
            for name in self._contained:
                if name in lower:
                    return name
            if self._titles.search(lower):
                return "title"
        return None

    def _inside(self, head: str, at: int, lower: bool) -> tuple[str | None, int]:
        """Find a known name that ends ``head``: in capitals, or after a stop."""
        for word in [*WORD.finditer(head)][-MOST_WORDS:]:
            name = head[word.start() :].strip(AROUND)
            section = self._section_of(name)
            name = name.capitalize() if lower else name
            before = head[: word.start()].rstrip(" \t*_")
            stop = not before or before[-1] in ENDS or name in PLAIN_WITHIN
            if section and (name.upper() == name or (stop and name[:1].isupper())):
                return section, at + word.start()
        return None, 0


LINE_START = re.compile(r"^([ \t]*+[^\W\d_][^\n:]{0,40}+:)", re.M)


def line_starts(text: str) -> list[str]:
    """Return the texts before a colon at the start of lines: candidates for headings."""
    return list(dict.fromkeys(match[1].rstrip() for match in LINE_START.finditer(text)))


def frequent(starts: Mapping[str, int], reports: int) -> str:
    """The line starts that are common among ``reports``; a rare one may be a patient's name."""
    most_common = Counter(starts).most_common(SHOWN)
    return ", ".join(f"{n!r} ({c})" for n, c in most_common if c >= max(3, 0.2 * reports))


def hint(form: str | None, starts: Mapping[str, int], reports: int) -> str:
    """Explain the expected form of headings, and name line starts of unparsed ``reports``."""
    if form == "mimic_cxr":
        expected = (
            "a heading is looked for in MIMIC-CXR's own form (a line break, one blank, capitals, a "
            "colon: '\\n FINDINGS:'); reports.sections.headings: any reads other forms"
        )
    else:
        expected = (
            "a heading is a known name before a colon ('Findings:'); other names are given a "
            "meaning by reports.sections.names"
        )
    examples = frequent(starts, reports) or "none that is frequent"
    return f"{expected}; line starts found in them: {examples}"
