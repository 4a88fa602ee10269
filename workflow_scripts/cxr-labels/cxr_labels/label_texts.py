"""Labels of report texts in memory: ``cxrflow.label``."""

from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.errors import InputError
from cxr_files.extras import naming_extras
from cxr_files.parallel import chunks
from cxr_labels.labelling import Worker
from cxr_labels.observations import OBSERVATIONS, Labels
from cxr_labels.report import RawReport
from cxr_labels.settings import ReportSettings

if TYPE_CHECKING:
    import pandas as pd

LAYOUT = "table"  # as `cxrflow label` reads the reports of a table


def label(
    texts: "Iterable[str] | pd.Series[str]", settings: ReportSettings | None = None
) -> "pd.DataFrame":
    """Label report texts with the 14 CheXpert observations (docs/labels.md).

    Returns a row for each text: the observations in CheXpert's order, 1.0 positive, 0.0 negative,
    -1.0 uncertain, NaN not mentioned; then ``outcome``, which is ``labelled`` or says why a text
    has no labels: ``empty``, not English, too long; and ``unread``, the number of words that were
    not read, where they alone withhold No Finding. The rows of a Series keep its index, so that
    ``reports.join(cxrflow.label(reports["text"]))`` joins them to their own; others are numbered
    from 0. A text may be a whole report with headings or a sentence. The labels are those of
    ``cxrflow label``.

    Raises:
        InputError: ``texts`` is one text, a table or a mapping, or holds something that is no
            text, or the settings name weights that are not there.
        ModuleNotFoundError: pandas is not installed; :func:`label_rows` needs none.

    >>> import cxrflow
    >>> labels = cxrflow.label(["Small left effusion. No pneumothorax.", "Possible edema.", ""])
    >>> labels[["Pleural Effusion", "Pneumothorax", "Edema", "outcome"]]
       Pleural Effusion  Pneumothorax  Edema   outcome
    0               1.0           0.0    NaN  labelled
    1               NaN           NaN   -1.0  labelled
    2               NaN           NaN    NaN     empty
    """
    with naming_extras():
        import pandas as pd

    index = texts.index if isinstance(texts, pd.Series) else None
    rows = list(_labelled(texts, settings))
    labels = [values or (None,) * len(OBSERVATIONS) for _, values, _ in rows]
    table = pd.DataFrame(labels, columns=list(OBSERVATIONS), index=index, dtype="float64")
    return table.assign(
        outcome=[outcome for outcome, *_ in rows], unread=[unread for *_, unread in rows]
    )


def label_rows(
    texts: Iterable[str], settings: ReportSettings | None = None
) -> list[dict[str, float | str | None]]:
    """Return the rows of :func:`label` as dictionaries, in the order of the texts; None is blank.

    >>> import cxr_labels
    >>> (row,) = cxr_labels.label_rows(["Small left effusion. No pneumothorax."])
    >>> row["Pleural Effusion"], row["Pneumothorax"], row["Edema"], row["outcome"]
    (1.0, 0.0, None, 'labelled')
    """
    rows = []
    for outcome, values, unread in _labelled(texts, settings):
        row: dict[str, float | str | None] = dict.fromkeys(OBSERVATIONS)
        for name, value in zip(OBSERVATIONS, values or (), strict=False):  # none, or all
            row[name] = None if isnan(value) else value
        rows.append({**row, "outcome": outcome, "unread": unread})
    return rows


def _labelled(
    texts: Iterable[str], settings: ReportSettings | None
) -> Iterator[tuple[str, Labels | None, int]]:
    if isinstance(texts, str):
        raise InputError(f"texts is one text of {len(texts)} characters; expected a list of texts")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        # Of these, Python would take the names of columns for the texts.
        raise InputError(
            f"texts is of type {type(texts).__name__}; expected a list or a Series of texts"
        )
    reports = [
        RawReport(str(place), None, text=_text(text, place)) for place, text in enumerate(texts)
    ]
    settings = (settings or ReportSettings()).of_layout(LAYOUT)
    worker = Worker(settings, LAYOUT, Path(), None, reasons=False)
    for run in map(worker.process, chunks(reports, settings.chunk)):
        yield from (
            (outcome, values, run.unread.get(name, 0)) for name, outcome, values in run.labels
        )


def _text(text: object, place: int) -> str:
    if not isinstance(text, str):
        # Nothing of its content is said, which may be a report's.
        raise InputError(f"texts[{place}] is of type {type(text).__name__}; expected a text")
    return text
