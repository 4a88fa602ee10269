"""The section parser against a second writing of MIMIC-CXR's rules, and against hostile text.

``slow_sections`` takes the published rules literally, a character at a time; both must cut every
random report alike, to the character.
"""

import gc
import random
import time
from collections import Counter

import pytest

from cxrflow.reports.sections import parse_report, split_sections
from cxrflow.reports.settings import SectionSettings

SETTINGS = SectionSettings()
PUBLISHED = SectionSettings(as_published=True)
MEANINGS = {
    "IMPRESSION": "impression",
    "CONCLUSION": "impression",
    "IMPRESSOIN": "impression",
    "FINDINGS AND IMPRESSION": "impression",
    "FINDINGS/ IMPRESSION": "impression",
    "NDICATION": "impression",
    "FINDINGS": "findings",
    "FINIDNGS": "findings",
    "CHEST, PA AND LATERAL": "findings",
    "PORTABLE ABDOMEN": "findings",
    "COMPARISON": "comparison",
    "COMPARISON FILMS": "comparison",
    "INDICATION": "indication",
    "REASON FOR EXAM": "indication",
    "PFI": "history",
    "FAMILY HISTORY": "history",
    "ADDENDUM ONE": "addendum",
    "RECOMMENDATION(S)": "recommendations",
    "EXAM": "examination",
    "WET READ": "wet_read",
    "LINES AND TUBES": "lines and tubes",
    "COINCLUSION": "coinclusion",
}


def slow_sections(text: str) -> list[tuple[str, str, int]]:
    """Name, text and start of every section: the rules, read letter by letter."""
    letters = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ ()/,-")
    sections, name, start, at = [], "full report", 0, 0
    while at < len(text):
        end = at + 2
        while end < len(text) and text[end] in letters:
            end += 1
        stop = text[end : end + 2]
        if text.startswith("\n ", at) and end > at + 2 and stop[:1] == ":" and stop[1:].isspace():
            if name == "full report":
                sections.append(("preamble", text[: at + 2], 0))
            else:
                sections.append((name, text[start:at], start))
            name, start = MEANINGS[text[at + 2 : end].strip()], end + 2
            at = start
            while at < len(text) and text[at] != "\n":
                at += 1
        else:
            at += 1
    sections.append((name, text[start:], start))
    sections = [p for p in sections if p[0] not in ("impression", "findings") or p[1].strip()]
    if not any(p[0] in ("impression", "findings") for p in sections):
        name, body, start = sections[-1]
        gap = body.find("\n \n")
        if gap >= 0:
            sections[-1] = (name, body[:gap], start)
            sections.append(("last_paragraph", body[gap + 3 :], start + gap + 3))
    return sections


def slow_conclusion(parts: list[tuple[str, str, int]]) -> str:
    """The last section of the first name that is there."""
    for wanted in ("impression", "findings", "last_paragraph", "comparison"):
        texts = [text.strip() for name, text, _ in parts if name == wanted]
        if texts:
            return texts[-1]
    return ""


def random_report(rng: random.Random) -> str:
    """Headings and text with all that can go wrong with blanks and lines between them."""
    text = rng.choice(["", "           FINAL REPORT", "\n", "Title\n \n"])
    for _ in range(rng.choice([0, 1, 1, 2, 3, 4, 6])):
        text += rng.choice(["\n"] * 6 + ["", "\n\n", "\n \n"])
        text += rng.choice([" "] * 8 + ["", "  ", "\t"]) + rng.choice(list(MEANINGS))
        text += rng.choice([": "] * 4 + [":  ", ":\n", ":\t", ":", " ", " : ", ": \n"])
        for _ in range(rng.choice([0, 1, 1, 2])):
            text += rng.choice(["\n ", "\n \n ", " ", "\n\n", "\n  \n", "\n\t\n"])
            text += rng.choice(
                ["Lungs are clear.", "No edema: none.", "IMPRESSION: Normal.", " Findings: x", ""]
            )
    return text + rng.choice(["\n", "", "\n \n", "\n \n "])


def test_published_settings_are_the_published_rules() -> None:
    rng = random.Random(20)
    came_from = Counter[str]()
    for _ in range(300):
        text = random_report(rng)
        expected = slow_sections(text)
        assert split_sections(text, PUBLISHED) == expected, text
        report = parse_report(text, PUBLISHED)
        assert report.conclusion == slow_conclusion(expected), text
        came_from[report.conclusion_from] += 1
    # Every branch was taken often enough to be tested.
    branches = ("impression", "findings", "last_paragraph", "comparison", "")
    assert min(came_from[name] for name in branches) >= 5


def test_default_settings_differ_by_what_they_say() -> None:
    rng = random.Random(21)
    changed = Counter[str]()
    for _ in range(300):
        text = random_report(rng)
        published, default = parse_report(text, PUBLISHED), parse_report(text, SETTINGS)
        if published == default:
            continue
        misspelt = [name for name in ("COINCLUSION", "NDICATION") if f" {name}" in text]
        empty = published.conclusion_from == "last_paragraph" and not published.conclusion
        assert misspelt or empty, text
        changed["heading" if misspelt else "paragraph"] += 1
    assert min(changed["heading"], changed["paragraph"]) >= 5


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "A", " A B,", "\n A", "A:", "\n A: ", "\n FINDINGS: x\n", "\n", "\n \n ", "\r\n"),
        *("(", "()", "\x01", "1. ", "\n IMPRESSION: \n"),
    ],
)
def test_twice_the_text_takes_twice_the_time(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        gc.disable()  # its passes over everything else that the tests hold are not ours
        started = time.process_time()
        parse_report(text, SETTINGS)
        duration = time.process_time() - started
        gc.enable()
        return duration

    assert seconds(2_000_000) < 3 * seconds(1_000_000) + 0.3


def test_line_of_ten_megabytes() -> None:
    text = "\n " + "HEART SIZE, LUNGS " * 560_000
    started = time.process_time()
    assert parse_report(text + ": Clear.", SETTINGS).conclusion == ""
    assert parse_report(text, SETTINGS).outcome == "no usable section"
    assert time.process_time() - started < 5
