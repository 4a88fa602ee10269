"""Texts of other hospitals' reports by kind of trouble, written without sight of the rules.

``label_sentences/reports_unseen.jsonl``: only the observations that a text names are looked at. The
first 60 were read once before any rule changed; the rest are wordings beside those that failed.
``reports_ordinary.jsonl``: all observations are looked at, and whether a text is labelled. 280
of its 300 texts were right before any rule changed.
"""

import json
import math
from pathlib import Path

import held_out_wording
import pytest
from held_out_wording import NAMES

import cxrflow

FOLDER = Path(held_out_wording.__file__).parent / "label_sentences"
CODES = {**NAMES, "NF": "No Finding"}
VALUES = {"+": 1, "-": 0, "?": -1, ".": None}


def rows(name: str) -> list[dict[str, str]]:
    """The texts of a file, with their labels."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def allowed(row: dict[str, str]) -> dict[str, list[int | None]]:
    """The values that a text may have, by code."""
    values = {}
    for code in row["labels"].split():
        name = code.rstrip("+-?.|")
        values[name] = [VALUES[sign] for sign in code.removeprefix(name).split("|")]
    return values


@pytest.mark.parametrize("row", rows("reports_unseen.jsonl"), ids=lambda row: row["text"][:40])
def test_unseen_text(row: dict[str, str]) -> None:
    labels = cxrflow.label([row["text"]]).iloc[0]
    for name, values in allowed(row).items():
        value = labels[CODES[name]]
        assert (None if math.isnan(value) else value) in values, name
    assert (labels["outcome"] == "labelled") == ("outcome" not in row)


@pytest.mark.parametrize("row", rows("reports_ordinary.jsonl"), ids=lambda row: row["text"][:40])
def test_ordinary_text(row: dict[str, str]) -> None:
    labels = cxrflow.label([row["text"]]).iloc[0]
    expected = allowed(row)
    for name, observation in CODES.items():
        value = labels[observation]
        assert (None if math.isnan(value) else value) in expected.get(name, [None]), name
    assert (labels["outcome"] == "labelled") == ("outcome" not in row)
