"""Whole reports by kind of trouble: templates, headings, empty reports, time, characters, degree.

``label_sentences/reports_*.jsonl`` holds texts with the labels that they should get, read as
``cxrflow label`` reads a table. The signs after a code are the values allowed; "." is blank.
"""

import pytest
from labelled_texts import allowed, labels_of, read_texts

from cxr_labels.labelling import EMPTY, LABELLED
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.statements import NO_STATEMENT

LEAST_SHARE_RIGHT = 0.99
DEVELOPMENT, MEASUREMENT = read_texts("development"), read_texts("measurement")


def is_right(row: dict[str, str]) -> bool:
    """Whether each observation has an allowed value; one that is not named is blank."""
    (labels, _), values = labels_of(row["text"]), allowed(row)
    return all(labels.get(name) in values.get(name, [None]) for name in OBSERVATIONS)


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
    assert [labels_of(text)[1] for text in texts] == [
        *(NO_STATEMENT, NO_STATEMENT, LABELLED, EMPTY, NO_STATEMENT)
    ]
