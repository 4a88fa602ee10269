"""Mentions of observations by the CheXpert labeller's published phrases (its first stage).

Phrases are regular expressions without word boundaries, an underscore standing for a blank; they
are searched in the cleaned sentence (Irvin et al. 2019, section "Label extraction", and the
labeller's loader and extractor). A mention that overlaps an "unmention" phrase of its observation
does not count. What counts against No Finding only is a mention of OTHER_FINDING.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from cxrflow.errors import InputError
from cxrflow.reports.labels.observations import OTHER_FINDING

# What cleaning changes, most special first: and/or, a slash between letters, a run of full stops,
# a comma or full stop with no blank behind it, blanks.
DIRTY = re.compile(
    r"(?P<either>[Aa][Nn][Dd]/[Oo][Rr])"
    r"|(?<=[A-Za-z])(?P<slash>/)(?=[A-Za-z])"
    r"|(?P<stops>\.(?:\s*\.)+)"
    r"|(?P<mark>[.,](?![\s\d]|\Z))"
    r"|(?P<blank>\s+)"
)
POSITIONS = tuple(
    where + side
    for where in ("over the", "overly the", "in the")
    for side in ("", " superior", " left", " right")
)
FINDINGS_OF_THEIR_OWN = ("cardiomegaly", "cardiac enlargement")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A sentence as the phrases and the parser see it, its case kept.

    ``places[i]`` is where character i of ``text`` stands in the sentence as given.
    """

    text: str
    places: tuple[int, ...]

    def given(self, start: int, end: int) -> tuple[int, int]:
        """The span in the given sentence of the span ``start`` to ``end`` of ``text``."""
        return self.places[start], self.places[end - 1] + 1


@dataclass(frozen=True, slots=True)
class Mention:
    """Characters ``start`` to ``end`` of the cleaned sentence mention ``observation``."""

    observation: str
    start: int
    end: int


def clean(sentence: str) -> Cleaned:
    """The sentence with "or" for slashes, single stops, a blank after marks, single blanks.

    As published, but the case is kept for the parser, and numbers ("2.5 cm") stay whole.
    """
    parts: list[str] = []
    places: list[int] = []

    def add(text: str, *at: int) -> None:
        parts.append(text)
        places.extend(at)

    done = len(sentence) - len(sentence.lstrip())
    stop = len(sentence.rstrip())
    for dirt in DIRTY.finditer(sentence, done, stop):
        start, end = dirt.span()
        add(sentence[done:start], *range(done, start))
        match dirt.lastgroup:
            case "either":
                add("or", end - 2, end - 1)
            case "slash":
                add(" or ", start, start, start, start)
            case "stops":
                add(".", start)
                if end < stop and not sentence[end].isspace():
                    add(" ", start)
            case "mark":
                add(sentence[start] + " ", start, start)
            case _:
                add(" ", start)
        done = end
    add(sentence[done:stop], *range(done, stop))
    return Cleaned("".join(parts), tuple(places))


def lower(text: str) -> str:
    """Lower case, character by character where that keeps the length."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def published(*path: str) -> Traversable:
    """A file or folder of the published rules."""
    return (resources.files("cxrflow.reports.rules") / "chexpert_labeler").joinpath(*path)


def read_phrases(name: str, text: str) -> list[str]:
    """The phrases of a file's text, one a line.

    Raises:
        InputError: a line is no regular expression; says ``name`` and the line.
    """
    phrases = []
    for number, line in enumerate(text.splitlines(), start=1):
        phrase = line.strip().replace("_", " ")
        try:
            re.compile(phrase)
        except re.error as error:
            raise InputError(f"{name}: line {number}: {phrase!r} ({error})") from None
        if phrase:
            phrases.append(phrase)
    return phrases


def _read_folder(kind: str) -> dict[str, list[str]]:
    """Phrases by observation; a file is called as its observation, "lung_lesion.txt"."""
    files = (f for f in published("phrases", kind).iterdir() if f.name.endswith(".txt"))
    return {
        file.name.removesuffix(".txt").replace("_", " ").title(): read_phrases(
            file.name, file.read_text("utf-8")
        )
        for file in sorted(files, key=lambda file: file.name)
    }


def unmentions() -> dict[str, list[str]]:
    """The phrases that bar a mention, with those of place: "over the left heart"."""
    mentions, barred = _read_folder("mention"), _read_folder("unmention")
    barred["Cardiomegaly"] = [
        f"{position} {phrase.replace('the ', '')}"
        for position in POSITIONS
        for phrase in mentions["Cardiomegaly"]
        if phrase not in FINDINGS_OF_THEIR_OWN
    ]
    barred["Enlarged Cardiomediastinum"] = [
        f"{position} {phrase}"
        for position in POSITIONS
        for phrase in mentions["Enlarged Cardiomediastinum"]
    ]
    return barred


@cache
def _expressions() -> Mapping[str, tuple[tuple[re.Pattern[str], ...], tuple[re.Pattern[str], ...]]]:
    """For each observation the expressions of its mentions, and of what bars them."""
    barred = unmentions()
    return {
        observation: (
            tuple(re.compile(phrase) for phrase in phrases),
            tuple(re.compile(phrase) for phrase in barred.get(observation, ())),
        )
        for observation, phrases in _read_folder("mention").items()
    }


def find_mentions(text: str) -> list[Mention]:
    """The mentions of a cleaned sentence, by place; overlapping phrases count each."""
    text = lower(text)
    mentions = []
    for observation, (phrases, barred) in _expressions().items():
        found = [m.span() for phrase in phrases for m in phrase.finditer(text)]
        if not found:
            continue
        bars = sorted(m.span() for phrase in barred for m in phrase.finditer(text))
        # Bars by start; the furthest end so far tells whether one before a mention reaches it.
        starts = [start for start, _ in bars]
        furthest = [0]
        for _, end in bars:
            furthest.append(max(furthest[-1], end))
        own = OTHER_FINDING if observation == "No Finding" else observation
        mentions += [
            Mention(own, start, end)
            for start, end in found
            if furthest[bisect_left(starts, end)] <= start
        ]
    return sorted(mentions, key=lambda m: (m.start, m.end, m.observation))
