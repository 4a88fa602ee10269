"""A data set's report texts, from the corpus folder that ``cxrflow.reports.corpus`` wrote.

The join is an outer one: some studies have no parsed report, and some reports no listed study.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxr_files.parquet import read_table


@dataclass(frozen=True)
class Corpus:
    """Attributes:
    sections: ``study_id``, ``findings``, ``impression`` (null = absent) and ``outcome``, the
        parser's word for what the report has.
    sentences: ``study_id``, ``section``, ``sentences`` (list of str in their order).
    documents: ``document_id``, ``study_id``, ``text`` of every report with text.
    """

    sections: pd.DataFrame
    sentences: pd.DataFrame
    documents: pd.DataFrame


def read_corpus(folder: Path, study_prefix: str) -> Corpus:
    """Read ``sections``, ``sentences`` and ``documents.parquet``.

    Args:
        study_prefix: what is taken off study ids so that they match the reader's (a regular
            expression of the layout).

    Raises:
        InputError: a file or a column is missing, or a study occurs twice.
    """
    sections = read_table(
        folder / "sections.parquet", ("study_id", "findings", "impression", "outcome")
    )
    sentences = read_table(
        folder / "sentences.parquet", ("study_id", "section", "index", "sentence")
    )
    documents = read_table(folder / "documents.parquet", ("document_id", "text"))
    for frame, column in ((sections, "study_id"), (sentences, "study_id")):
        frame[column] = study_key(frame[column], study_prefix)
    documents["study_id"] = study_key(documents["document_id"], study_prefix)
    # The join below would pair the study with both reports.
    repeated = sections.loc[sections["study_id"].duplicated(), "study_id"]
    if len(repeated):
        raise InputError(
            f"{folder / 'sections.parquet'}: study_id {repeated.iloc[0]} occurs twice; "
            "expected one row a study"
        )
    for name in ("findings", "impression"):
        text = sections[name].astype("str").str.strip()
        sections[name] = text.where(text != "")
    return Corpus(sections, _as_lists(sentences), documents)


def report_labels(folder: Path, study_prefix: str) -> pd.DataFrame:
    """Read the labels of the reports: ``study_id`` as in :func:`read_corpus`, a column a class."""
    labels = read_table(folder / "labels.parquet", ("study_id",))
    return labels.assign(study_id=study_key(labels["study_id"], study_prefix))


def study_key(ids: pd.Series, study_prefix: str) -> pd.Series:
    """Return study ids in the form in which corpus and data set are joined."""
    return ids.astype("str").str.strip().str.replace(study_prefix, "", regex=True)


def _as_lists(sentences: pd.DataFrame) -> pd.DataFrame:
    ordered = sentences.sort_values(["study_id", "section", "index"], kind="stable")
    keys = ordered[["study_id", "section"]]
    first = ~keys.duplicated()
    # Reports repeat sentences: each different one is one object.
    number, distinct = pd.factorize(ordered["sentence"])
    texts = distinct.to_numpy(object)[number]
    borders = [*np.flatnonzero(first), len(ordered)]
    lists = [texts[a:b].tolist() for a, b in pairwise(borders)]
    column = pd.Series(lists, dtype=object)
    return keys[first].reset_index(drop=True).assign(sentences=column)
