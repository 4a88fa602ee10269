"""Labels of report texts in memory: ``cxrflow.label``."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from cxr_files.errors import InputError
from cxr_files.parallel import chunks
from cxr_labels.labelling import Worker
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.report import RawReport
from cxr_labels.settings import ReportSettings

LAYOUT = "table"  # as `cxrflow label` reads the reports of a table


def label(texts: Iterable[str], settings: ReportSettings | None = None) -> pd.DataFrame:
    """Label report texts with the 14 CheXpert observations (docs/labels.md).

    Returns a row for each text, numbered from 0: the observations in CheXpert's order, 1.0
    positive, 0.0 negative, -1.0 uncertain, NaN not mentioned; then ``outcome``, which is
    ``labelled`` or says why a text has no labels: ``empty``, not English, too long; and ``unread``,
    the number of words that were not read, where they alone withhold No Finding. A text may be a
    whole report with headings or a sentence. The labels are those of ``cxrflow label``.

    Raises:
        InputError: ``texts`` is one text or holds something that is no text, or the settings name
            weights that are not there.

    >>> import cxrflow
    >>> labels = cxrflow.label(["Small left effusion. No pneumothorax.", "Possible edema.", ""])
    >>> labels[["Pleural Effusion", "Pneumothorax", "Edema", "outcome"]]
       Pleural Effusion  Pneumothorax  Edema   outcome
    0               1.0           0.0    NaN  labelled
    1               NaN           NaN   -1.0  labelled
    2               NaN           NaN    NaN     empty
    """
    if isinstance(texts, str):
        raise InputError(f"texts is one text of {len(texts)} characters; expected a list of texts")
    reports = [
        RawReport(str(place), None, text=_text(text, place)) for place, text in enumerate(texts)
    ]
    settings = (settings or ReportSettings()).of_layout(LAYOUT)
    worker = Worker(settings, LAYOUT, Path(), None, reasons=False)
    runs = list(map(worker.process, chunks(reports, settings.chunk)))
    rows = [row for run in runs for row in run.labels]
    unread = {name: words for run in runs for name, words in run.unread.items()}
    blank = (None,) * len(OBSERVATIONS)
    labels = [values or blank for *_, values in rows]
    table = pd.DataFrame(labels, columns=list(OBSERVATIONS), dtype="float64")
    return table.assign(
        outcome=[outcome for _, outcome, _ in rows],
        unread=[unread.get(name, 0) for name, *_ in rows],
    )


def _text(text: object, place: int) -> str:
    if not isinstance(text, str):
        # Nothing of its content is said, which may be a report's.
        raise InputError(f"texts[{place}] is of type {type(text).__name__}; expected a text")
    return text
