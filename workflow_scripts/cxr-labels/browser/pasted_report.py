"""What the page shows of a pasted report: its labels, its sections, the words behind each label.

The page calls it in the browser; the tests call it in both Pythons.
"""

import json
from collections.abc import Callable
from math import isnan
from pathlib import Path

from cxr_labels.labelling import REASONS, Worker
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.report import RawReport
from cxr_labels.settings import ReportSettings

LAYOUT = "table"  # a pasted report is read as one of a table


def report_reader() -> Callable[[str], str]:
    """Return a function from a report's text to JSON.

    ``outcome`` and the 14 ``labels`` (1, 0, -1, null; null in their place without labels) are those
    of ``cxr-labels``; ``reasons`` are the rows of its ``--reasons FILE --with-text``. ``reversed``:
    an addendum says the opposite. ``left_out``: more than half the words are not labelled.
    """
    worker = Worker(ReportSettings().of_layout(LAYOUT), LAYOUT, Path(), None, reasons=True)

    def read(text: str) -> str:
        rows = worker.process([RawReport("pasted", None, text=text)])
        ((_, outcome, values),) = rows.labels
        labels = values and [None if isnan(value) else int(value) for value in values]
        seen = {
            "outcome": outcome,
            "labels": labels and dict(zip(OBSERVATIONS, labels, strict=True)),
            "reasons": [dict(zip(REASONS, row, strict=True)) for row in rows.reasons],
            "reversed": bool(rows.reversed),
            "left_out": bool(rows.left_out),
        }
        return json.dumps(seen)

    return read
