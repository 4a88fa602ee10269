"""Texts of other hospitals' reports by kind of trouble, written without sight of the rules.

``label_sentences/reports_unseen.jsonl``: only the observations that a text names are looked at. The
first 60 were read once before any rule changed; the rest are wordings beside those that failed.
``reports_ordinary.jsonl``: all observations are looked at, and whether a text is labelled. 280
of its 300 texts were right before any rule changed.
"""

import math

import pytest
from labelled_texts import CODES, allowed, read_texts

import cxrflow

ROWS = [(row, allowed(row)) for row in read_texts("unseen")]
BLANK = dict.fromkeys(CODES.values(), [None])  # what no text names
ROWS += [(row, BLANK | allowed(row)) for row in read_texts("ordinary")]


@pytest.mark.parametrize(("row", "expected"), ROWS, ids=[row["text"][:40] for row, _ in ROWS])
def test_text(row: dict[str, str], expected: dict[str, list[int | None]]) -> None:
    labels = cxrflow.label([row["text"]]).iloc[0]
    for name, values in expected.items():
        value = labels[name]
        assert (None if math.isnan(value) else value) in values, name
    assert (labels["outcome"] == "labelled") == ("outcome" not in row)
