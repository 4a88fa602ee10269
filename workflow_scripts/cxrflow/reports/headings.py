"""Headings of reports of any hospital, in any form.

A heading is a known name before a colon: at a line's start in any case, flush left or not, with or
without list numbers and marks around it; or alone on its line; in capitals also before other text.
In the middle of a line, where the line breaks of a report were lost, it is in capitals, or it
follows a stop. Known are the names in ``rules/headings.yaml``, those of MIMIC-CXR's parser, and a
hospital's own (``sections.names``). Other names before a colon ("Left lung:") are text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import NamedTuple

import yaml

from cxrflow.reports.spelling import Speller

MAIN = frozenset(("impression", "findings"))
OPENING = ("organ", "title")
# Sections of a line; what stands on the lines below is no longer theirs.
OF_A_LINE = ("comparison", "examination", "technique", "date")
LONGEST, MOST_WORDS = 60, 6
LINE = re.compile(r"[^\n]++")
COLON = re.compile(r"[:：][*_]*+")
AROUND = " \t*#_=~>•-–—.:：[]"
NUMBER = re.compile(r"\(?\d{1,2}[.)]\s*")
WORD = re.compile(r"\S++")
# Capitals before a dash, or before a word that has others: "FINDINGS - …", "FINDINGS The heart".
CAPITALS = re.compile(r"\s*+((?:[A-Z]{2,}\s++){1,3})(?:[-–—]++\s++|(?=[A-Z0-9][a-z.)]))")
JOINED = re.compile(r"/|&| and ")
STOP = re.compile(r"[.;!?](?:\s|$)")
ENDS = ".!?;)]:："
SHOWN = 4


class Heading(NamedTuple):
    """Where a heading starts, where its section's text does, and the section's name."""

    start: int
    body: int
    name: str


def _amid(text: str, start: int) -> bool:
    """Whether words stand before it on its line."""
    return bool(text[text.rfind("\n", 0, start) + 1 : start].strip())


def _listed(rows: Iterable[Iterable[str]]) -> set[str]:
    return {name for row in rows for name in row}


class Headings:
    """The names that are known: the lists', MIMIC-CXR's, and a hospital's ``own`` by section."""

    def __init__(
        self,
        published: Mapping[str, str],
        titles: re.Pattern[str],
        own: Mapping[str, Iterable[str]],
    ):
        file = resources.files("cxrflow.reports.rules") / "headings.yaml"
        data = yaml.safe_load(file.read_text("utf-8"))
        self._known = dict(published)
        for name, rows in data["known"].items():
            self._known.update(dict.fromkeys(_listed(rows), name))
        for name, theirs in own.items():
            self._known.update({" ".join(one.lower().split()): name for one in theirs})
        self._contained: list[str] = data["contained"]
        self._organs = _listed(data["organs"]) - set(self._known)
        self._titles = titles
        self._speller = Speller((k for k in self._known if " " not in k), self._organs)
        self._names: dict[str, str | None] = {}

    def find(self, text: str) -> list[Heading]:
        """The headings of a report in order.

        An organ's name, or the title of an examination, begins the findings where neither they nor
        the impression are open; an organ's belongs to them. Without either, headings inside a line
        are taken for text.
        """
        found: list[Heading] = []
        for heading in self._candidates(text):
            start, body, name = heading
            within = bool(found) and found[-1].name in MAIN
            if name in OPENING:
                if not within:
                    found.append(Heading(start, start if name == "organ" else body, "findings"))
                continue
            # "No edema. Comparison: a film of last week shows …" goes on.
            goes_on = within and name in OF_A_LINE and _amid(text, start)
            if not goes_on or text[start:body].isupper():
                found.append(heading)
        if MAIN.isdisjoint(heading.name for heading in found):
            return [h for h in found if not _amid(text, h.start)]
        return found

    def _candidates(self, text: str) -> Iterator[Heading]:
        for line in LINE.finditer(text):
            at, end, words = line.start(), line.end(), line[0]
            done = 0
            if (capitals := CAPITALS.match(words)) and (name := self._known_as(capitals[1])):
                done = capitals.end()
                yield Heading(at, at + done, name)
            marks = list(COLON.finditer(words, done)) if ":" in words or "：" in words else []
            if not marks and not done and len(words) <= LONGEST and (name := self._alone(words)):
                yield Heading(at, end, name)
            for mark in marks:
                head = words[max(done, mark.start() - LONGEST) : mark.start()]
                start = 0
                at_start = done == 0 and mark.start() <= LONGEST
                name = self._at_start(head) if at_start else None
                if name is None:
                    name, start = self._inside(head, mark.start() - len(head))
                if name is not None:
                    yield Heading(at + start, at + mark.end(), name)
                    done = mark.end()

    def _known_as(self, name: str) -> str | None:
        return self._known.get(" ".join(name.lower().split()))

    def _alone(self, line: str) -> str | None:
        bare = line.strip(AROUND)
        name = self._known_as(bare) if bare[:1].isupper() else None
        return name if line.rstrip()[-1:] not in (".", ",") else None

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
        name = self._known.get(lower) or self._known.get(self._speller.correct(lower))
        if name is not None or not lower:
            return name
        if lower in self._organs:
            return "organ"
        parts = [self._known.get(part.strip()) for part in JOINED.split(lower)]
        if all(parts):  # "Clinical History/Indication"
            return next((name for name in ("impression", "findings") if name in parts), parts[-1])
        if bare.upper() == bare and len(bare.split()) <= MOST_WORDS and not STOP.search(bare):
            for name in self._contained:
                if name in lower:
                    return name
            if self._titles.search(lower):
                return "title"
        return None

    def _inside(self, head: str, at: int) -> tuple[str | None, int]:
        """A known name at the end of ``head``, whole: in capitals, or after a stop."""
        for word in [*WORD.finditer(head)][-MOST_WORDS:]:
            name = head[word.start() :].strip(AROUND)
            known = self._known_as(name)
            before = head[: word.start()].rstrip(" \t*_")
            stop = not before or before[-1] in ENDS
            if known and (name.upper() == name or (stop and name[:1].isupper())):
                return known, at + word.start()
        return None, 0


LINE_START = re.compile(r"^([ \t]*+[^\W\d_][^\n:]{0,40}+:)", re.M)


def line_starts(text: str) -> list[str]:
    """What stands before a colon at the start of lines: what a hospital's headings may be."""
    return list(dict.fromkeys(found[1].rstrip() for found in LINE_START.finditer(text)))


def frequent(starts: Mapping[str, int], reports: int) -> str:
    """The line starts of many of so many reports; those of few may be a patient's name."""
    often = Counter(starts).most_common(SHOWN)
    return ", ".join(f"{n!r} ({c})" for n, c in often if c >= max(3, 0.2 * reports))


def hint(form: str | None, starts: Mapping[str, int], reports: int) -> str:
    """What a heading looks like, and what was found in ``reports`` that were not understood."""
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
    found = frequent(starts, reports) or "none that is frequent"
    return f"{expected}; line starts found in them: {found}"
