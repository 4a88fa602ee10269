"""Reports of several models beside the radiologist's, words of change marked (BioViL-T Table A.1).

An expert marked the paper's. Here the words that TEM counts are marked: in a model's report such a
word is *agreed* if the reference has it too, else *other*.
"""

from typing import Any

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxr_files.ids import entry
from cxr_files.parquet import read_table
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs
from cxrflow.benchmarks.generation.settings import ReportsFigureSettings
from cxrflow.reports.entities.taggers import Entity, KeywordTagger

SCORES = ("sample_id", "study_id", "with_prior", "reference", "generated", "rouge_l")


def at_quantiles(scores: pd.Series, count: int) -> list[Any]:
    """Return the index of ``count`` scores at equal distances in ascending order."""
    order = scores.sort_values(kind="stable").index
    places = (np.arange(1, count + 1) / (count + 1) * len(order)).astype(int)
    # Of few scores several quantiles may fall on one place.
    return order[np.unique(places)].tolist() if len(order) else []


def marked_spans(reference: str, *texts: str) -> list[list[tuple[str, str | None]]]:
    """Split the reference and the texts into spans, each with its mark.

    Words of change are ``stated`` in the reference; in the texts they are ``agreed`` if the
    reference has them too, else ``other``.
    """
    stated, *changes = KeywordTagger().tag([reference, *texts])
    vocabulary = {word.text for word in stated}
    spans = [_spans(reference, [(word, "stated") for word in stated])]
    for text, words in zip(texts, changes, strict=True):
        marks = ["agreed" if word.text in vocabulary else "other" for word in words]
        spans.append(_spans(text, list(zip(words, marks, strict=True))))
    return spans


def _spans(text: str, words: list[tuple[Entity, str]]) -> list[tuple[str, str | None]]:
    spans: list[tuple[str, str | None]] = []
    begin = 0
    for word, mark in words:
        spans += [(text[begin : word.start], None), (text[word.start : word.end], mark)]
        begin = word.end
    return [span for span in (*spans, (text[begin:], None)) if span[0]]


def draw(inputs: FigureInputs, settings: ReportsFigureSettings) -> FigureDrawing:
    """Return no picture, but the page's table: a row for each study, a column for each model."""
    tables = {}
    paths = []
    for label, result in inputs.columns(settings.columns).items():
        paths.append(path := result.folder / "predictions.parquet")
        table = read_table(path, SCORES)
        for side in ("reference", "generated"):
            if not table[side].map(lambda text: isinstance(text, str)).all():
                raise InputError(f"{path}: column '{side}' holds what is no text")
        tables[label] = table.set_index("sample_id")
    first, *more = tables.values()
    if any(not first["reference"].equals(table["reference"]) for table in more):
        raise InputError(
            f"{paths[0]}: its studies or their reports are not those of "
            f"{', '.join(map(str, paths[1:]))}; expected the same"
        )
    likeness = pd.concat([table["rouge_l"] for table in tables.values()], axis=1).mean(axis=1)
    prior = first["with_prior"]
    speaks = pd.Series(map(bool, KeywordTagger().tag(first["reference"].tolist())), first.index)
    chosen = at_quantiles(likeness[prior & speaks], settings.with_prior)
    chosen += at_quantiles(likeness[~prior], settings.without_prior)
    rows = [
        {
            **entry("study", str(first.at[sample, "study_id"])),
            "with_prior": bool(prior[sample]),
            "texts": marked_spans(
                str(first.at[sample, "reference"]),
                *(str(table.at[sample, "generated"]) for table in tables.values()),
            ),
        }
        for sample in chosen
    ]
    caption = (
        f"Of {int((prior & speaks).sum())} studies with a prior whose report speaks of change, and "
        f"of {int((~prior).sum())} without a prior: at equal distances in the order of ROUGE-L, "
        "mean of all columns; first seeds. Marked are words of change. Drafts of research models, "
        "not for clinical use."
    )
    return FigureDrawing(
        None, caption, [], ["reports"], {"columns": ["Reference", *tables], "rows": rows}
    )
