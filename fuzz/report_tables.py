"""Tables of reports as people save them, with and without a line of names above the reports.

Rows are statements whose labels are known (:mod:`fuzz.reports`). A table is refused without a word
of its reports, or each row has the labels that it should have and none is lost.
"""

import csv
import io
import json
from pathlib import Path
from random import Random
from typing import NamedTuple

import pandas as pd

from cxr_files.errors import InputError
from cxr_labels.command import main as label
from cxr_labels.observations import OBSERVATIONS
from fuzz import reports
from fuzz.trial import Trial

COUNT = 300
HEADERS = ("report", "Report Text", "TEXT", "Findings", "impression", "Reports", "FullReport")
IDS = ("id", "study", "Accession Number", "study_id")
ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "utf-32")
ENDS = ("\n", "\r\n", "\r")
SEPARATORS = (",", ";", "\t", "|")


class Case(NamedTuple):
    """A table, and the labels of its rows."""

    path: Path
    labels: list[dict[str, int]]
    texts: list[str]


def run(trial: Trial, work: Path) -> None:
    """Each case is a table of its own."""
    cases = [draw(trial.random(number), work / f"{number:05d}") for number in range(trial.count)]
    trial.attempt(read, cases)


def draw(random: Random, folder: Path) -> Case:
    """Write a table of reports."""
    drawn = [reports.draw(random) for _ in range(random.randint(1, 8))]
    texts = [case.text for case in drawn]
    rows = [[text] for text in texts]
    header = [random.choice(HEADERS)]
    if random.random() < 0.4:
        rows = [[f"s{number}", *row] for number, row in enumerate(rows)]
        header = [random.choice(IDS), *header]
    if random.random() < 0.6:
        rows = [header, *rows]
    stream, end = io.StringIO(), random.choice(ENDS)
    # With other line ends the writer would leave those of a text without quotes.
    minimal = end != "\r" and random.random() < 0.5
    writer = csv.writer(
        stream,
        delimiter=random.choice(SEPARATORS),
        quoting=csv.QUOTE_MINIMAL if minimal else csv.QUOTE_ALL,
        lineterminator=end,
    )
    writer.writerows(rows)
    folder.mkdir()
    path = folder / f"reports.{random.choice(('csv', 'csv', 'tsv', 'txt.csv'))}"
    path.write_bytes(stream.getvalue().encode(random.choice(ENCODINGS)))
    return Case(path, [case.labels for case in drawn], texts)


def read(case: Case) -> None:
    """Label a table, and compare its rows with what was meant."""
    output = case.path.parent / "labels.csv"
    try:
        label(["--input", str(case.path), "--output", str(output)])
    except InputError as error:
        _require_silence(str(error), case.texts)
        raise
    table = pd.read_csv(output)
    _require_silence(json.dumps(json.loads(Path(f"{output}.json").read_text())), case.texts)
    if len(table) != len(case.labels):
        raise AssertionError(f"{len(table)} rows of {len(case.labels)} reports")
    for values, labels in zip(
        table[list(OBSERVATIONS)].itertuples(index=False), case.labels, strict=True
    ):
        row = dict(zip(OBSERVATIONS, values, strict=True))
        found = {name: int(value) for name, value in row.items() if value == value}
        found.pop("No Finding", None)
        if found != labels:
            raise AssertionError(f"read as {found}, expected {labels}")


def _require_silence(words: str, texts: list[str]) -> None:
    """A report's text must not stand in an error or a summary."""
    for line in (line for text in texts for line in text.split("\n")):
        if line in words or line.lower() in words.lower():
            raise AssertionError(f"{line!r} is printed: {words[:500]}")
