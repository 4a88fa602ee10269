"""Whole reports by kind of trouble: templates, headings, empty reports, time, characters, degree.

``label_sentences/reports_*.jsonl`` holds texts with the labels that they should get, read as
``cxrflow label`` reads a table. The signs after a code are the values allowed; "." is blank.
"""

import json
import math
from pathlib import Path

import pytest
from held_out_wording import NAMES

from cxr_labels.labelling import EMPTY, LABELLED, Worker
from cxr_labels.observations import OBSERVATIONS, Labels
from cxr_labels.report import RawReport
from cxr_labels.settings import ReportSettings
from cxr_labels.statements import NO_STATEMENT

FOLDER = Path(__file__).parent / "label_sentences"
CODES = {**NAMES, "NF": "No Finding"}
VALUES = {"+": 1, "-": 0, "?": -1, ".": None}
LEAST_SHARE_RIGHT = 0.99


def read(name: str) -> list[dict[str, str]]:
    lines = (FOLDER / f"reports_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


DEVELOPMENT, MEASUREMENT = read("development"), read("measurement")


def label(texts: list[str]) -> list[tuple[str, Labels | None]]:
    """Outcome and labels of each text."""
    worker = Worker(ReportSettings().of_layout("table"), "table", Path("x"), None, False)
    rows = worker.process([RawReport(str(n), None, text=text) for n, text in enumerate(texts)])
    return [(outcome, labels) for _, outcome, labels in rows.labels]


def is_right(row: dict[str, str]) -> bool:
    """Whether each observation has an allowed value; one that is not named is blank."""
    allowed = {}
    for code in row["labels"].split():
        if code != "none":
            name = code.rstrip("+-?.|")
            allowed[CODES[name]] = [VALUES[sign] for sign in code.removeprefix(name).split("|")]
    ((_, labels),) = label([row["text"]])
    values = labels or (math.nan,) * len(OBSERVATIONS)
    return all(
        (None if math.isnan(value) else value) in allowed.get(name, [None])
        for name, value in zip(OBSERVATIONS, values, strict=True)
    )


@pytest.mark.parametrize("row", DEVELOPMENT, ids=lambda row: row["text"][:40])
def test_development_text(row: dict[str, str]) -> None:
    assert is_right(row)


def test_measurement_texts() -> None:
    right = sum(map(is_right, MEASUREMENT))
    assert right >= LEAST_SHARE_RIGHT * len(MEASUREMENT), f"{right} of {len(MEASUREMENT)} right"


def test_the_halves_share_no_text_and_hold_the_same_kinds() -> None:
    texts = [row["text"] for row in DEVELOPMENT + MEASUREMENT]
    assert len(set(texts)) == len(texts) >= 300
    kinds = [{row["kind"] for row in rows} for rows in (DEVELOPMENT, MEASUREMENT)]
    assert kinds[0] == kinds[1] and len(kinds[0]) == 7


def test_a_report_that_says_nothing_has_an_outcome_and_no_label() -> None:
    texts = ["None.", "Report pending", "No edema.", "", "FINDINGS: n/a\nIMPRESSION: See above."]
    assert [outcome for outcome, _ in label(texts)] == [
        *(NO_STATEMENT, NO_STATEMENT, LABELLED, EMPTY, NO_STATEMENT)
    ]
