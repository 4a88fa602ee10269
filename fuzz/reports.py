"""Reports in other clothes: case, wrapping, line ends, quotes, lists, repetition, headings …

A report is a row of statements and answers whose labels are known as they stand. Dressed otherwise
it must have the same labels: a change is a silent reversal, and a fault.
"""

import math
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from cxr_labels.labelling import Worker
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.report import RawReport
from cxr_labels.settings import ReportSettings
from fuzz.trial import Trial

COUNT = 3000
FINDINGS = {
    "pneumothorax": "Pneumothorax",
    "pleural effusion": "Pleural Effusion",
    "consolidation": "Consolidation",
    "cardiomegaly": "Cardiomegaly",
    "pulmonary edema": "Edema",
    "atelectasis": "Atelectasis",
    "rib fracture": "Fracture",
    "pneumonia": "Pneumonia",
}
ABSENT = (
    *("No {}.", "There is no evidence of {}.", "The {} has resolved.", "{}: No", "{}: absent"),
    *("{}: negative", "{} (-)", "{}? No.", "{} - none", "{} = no", "{}: none.", "{}: neg", "{}: N"),
    *("{}\tNo", "{} | no", "{}: nil", "{} [ ] yes [x] no", "{} ........ no", "Without {}."),
    *("{0}: no {0}.", "{0}: no evidence of {0}", "{}? N", "{}? Neg", "{}: 0", "{} ( ) yes (x) no"),
)
PRESENT = (
    *("There is {}.", "Mild {} is seen.", "{}: Yes", "{}: present", "{} (+)", "{}? Yes."),
    *("{}: positive", "{} = yes", "Almost complete resolution of {}.", "New {}.", "{}: pos"),
    *("{}: Y", "{}\tYes", "{} | yes", "[x] {}", "{} [x] yes [ ] no", "{} ........ yes"),
    *("Known {}.", "{0}: mild {0}.", "{}? Y", "{}? Pos", "(x) {}", "{} (x) yes ( ) no"),
)
HEARTS = {
    "Heart size is normal.": 0,
    "The heart is above normal size.": 1,
    "Heart size is not normal.": 1,
    "CTR 0.44.": 0,
    "Cor: enlarged.": 1,
}
SAID = {0: ABSENT, 1: PRESENT}
ENDS = ("\r\n", "\r", "<br/>", "\\n", "\u2028", "<br>\n", "\n\n", "\v", "&#10;", "\x85")
LIGATURES = (("ffu", "\ufb00u"), ("fi", "\ufb01"), ("fl", "\ufb02"))


class Case(NamedTuple):
    """A report as it stands, the values its observations have, and the same report changed."""

    text: str
    labels: dict[str, int]
    changed: str


def run(trial: Trial, work: Path) -> None:
    """Each case is a report and one change of its clothes."""
    trial.attempt(check, [draw(trial.random(number)) for number in range(trial.count)])


def draw(random: Random) -> Case:
    """A report of some statements, changed."""
    labels: dict[str, int] = {}
    lines = []
    for name in random.sample(sorted(FINDINGS), random.randint(1, 5)):
        value = random.randint(0, 1)
        if FINDINGS[name] == "Cardiomegaly" and "CTR" in "".join(lines):
            continue
        line = random.choice(SAID[value]).format(name)
        lines.append(line[0].upper() + line[1:])
        labels[FINDINGS[name]] = value
    if "Cardiomegaly" not in labels and random.random() < 0.4:
        heart = random.choice(sorted(HEARTS))
        lines.append(heart)
        labels["Cardiomegaly"] = HEARTS[heart]
    text = "\n".join(lines)
    return Case(text, labels, random.choice(CHANGES)(random, text))


def check(case: Case) -> None:
    """Compare the labels of both forms with those that were meant."""
    for text in (case.text, case.changed):
        ((_, outcome, values),) = _worker().process([RawReport("0", None, text=text)]).labels
        read = dict(zip(OBSERVATIONS, values or (math.nan,) * len(OBSERVATIONS), strict=True))
        found = {name: value for name, value in read.items() if value == value}
        found.pop("No Finding", None)
        if found != case.labels:
            raise AssertionError(f"{text!r} ({outcome}) is read as {found}, expected {case.labels}")


@cache
def _worker() -> Worker:
    return Worker(ReportSettings().of_layout("table"), "table", Path(), None, False)


def _wrapped(random: Random, text: str) -> str:
    """Lines broken at a width that no statement starts within."""
    width = random.randint(12, 40)
    lines = (textwrap.wrap(line, width, break_long_words=False) for line in text.split("\n"))
    return "\n\n".join(map("\n".join, lines))


def _split_word(random: Random, text: str) -> str:
    """A long word broken at the end of a line, or by a character that cannot be seen."""
    places = [i for i in range(3, len(text) - 3) if text[i - 3 : i + 3].isalpha()]
    if not places:
        return text
    at = random.choice(places)
    return text[:at] + random.choice(("-\n", "\u00ad", "\u200b", "\u00ad\n")) + text[at:]


def _ligatures(random: Random, text: str) -> str:
    for plain, joined in LIGATURES:
        text = text.replace(plain, joined)
    return text


def _dressed(random: Random, text: str) -> str:
    """No-break blanks, typographic dashes, full-width letters."""
    kind = random.randrange(3)
    if kind == 0:
        return text.replace(" ", "\u00a0")
    if kind == 1:
        return text.replace(" - ", random.choice((" \u2013 ", " \u2014 ")))
    return "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in text)


def _headed(random: Random, text: str) -> str:
    """A heading before, an indication before that."""
    mark = random.choice((":", " :", " -", ":-"))
    indication = random.choice(("", f"Indication{mark} ?lung abscess\n", f"Hx{mark} nodule\n"))
    return f"{indication}{random.choice(('Findings', 'FINDINGS', 'Report'))}{mark}\n{text}"


def _quoted(random: Random, text: str) -> str:
    """In quotes as a whole, or line by line."""
    before, after = random.choice(('""', "''", "\u201c\u201d", "\u00ab\u00bb"))
    lines = [text] if random.random() < 0.5 else text.split("\n")
    return "\n".join(f"{before}{line}{after}" for line in lines)


def _itemised(random: Random, text: str) -> str:
    """The statements as items of one line."""
    return text.replace("\n", random.choice((" • ", " * ", "•")))


def _listed(random: Random, text: str) -> str:
    """Each statement an item of a list."""
    marks = random.choice((("-",) * 9, ("\u2022",) * 9, [f"{n}." for n in range(1, 10)]))
    return "\n".join(f"{mark} {line}" for mark, line in zip(marks, text.split("\n"), strict=False))


CHANGES: tuple[Callable[[Random, str], str], ...] = (
    lambda random, text: text.upper(),
    lambda random, text: text.lower(),
    lambda random, text: text.replace("\n", random.choice(ENDS)),
    lambda random, text: f"{text}\n{text}",
    lambda random, text: f"\n\n  {text}  \n",
    lambda random, text: text.replace("\n", " \n "),
    _wrapped,
    _split_word,
    _ligatures,
    _dressed,
    _headed,
    _quoted,
    _listed,
    _itemised,
)
