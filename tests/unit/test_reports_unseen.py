"""Texts of other hospitals' reports by kind of trouble, written without sight of the rules.

``label_sentences/reports_unseen.jsonl``: only the observations that a text names are looked at. The
first 60 were read once before any rule changed; the rest are wordings beside those that failed.
"""

import json
import math
from pathlib import Path

import pytest
from held_out_wording import NAMES

import cxrflow

FILE = Path(__file__).parent / "label_sentences/reports_unseen.jsonl"
CODES = {**NAMES, "NF": "No Finding"}
VALUES = {"+": 1, "-": 0, "?": -1, ".": None}
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"][:40])
def test_unseen_text(row: dict[str, str]) -> None:
    labels = cxrflow.label([row["text"]]).iloc[0]
    for code in row["labels"].split():
        name = code.rstrip("+-?.|")
        allowed = [VALUES[sign] for sign in code.removeprefix(name).split("|")]
        value = labels[CODES[name]]
        assert (None if math.isnan(value) else value) in allowed, name
