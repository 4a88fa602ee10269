"""Text-image retrieval: which candidates have the category that a text describes? (ConVIRT 4.2.)

The score is the cosine of the two projections, v and u, as trained, or the similarity that the
model keeps in its place. Contrastive-Binary-Loss keeps none by default: the paper scores it by the
same cosine, not by the classifier's probability. Texts are embedded as they are, each as a whole.
"""

from typing import Any

import numpy as np
import pandas as pd

from cxr_files.atomic import file_digest, fingerprint
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.retrieval.precision import (
    RETRIEVAL,
    candidates_of,
    predictions_of,
    score_queries,
)
from cxrflow.benchmarks.retrieval.settings import TextRetrievalSettings
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.retrieval import without_rounding

COLUMNS = RETRIEVAL
FILE = "queries.parquet"


def read_queries(inputs: ModelInputs) -> pd.DataFrame:
    """Return the queries; both they and the cohort count for the fingerprint of the data."""
    data, path = inputs.cohort.data, inputs.options.cohort / FILE
    table = read_table(path, ("query_id", "category", "text"))
    if table.empty:
        raise InputError(f"{path}: the table is empty; expected a row a text")
    data["fingerprint"] = fingerprint([data["fingerprint"], file_digest(path)])
    # A text belongs to no patient.
    return table.rename(columns={"query_id": "sample_id"}).assign(subject_id=None)


def usable(queries: pd.DataFrame, model: Any | None) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The queries of which the tokenizer leaves something, and those of which it does not."""
    texts = queries["text"].fillna("").tolist()
    empty = [not text.strip() for text in texts]
    if model is not None:
        empty = [all(text.special_tokens_mask) for text in model.tokenizer.encode_batch(texts)]
    return drop_rows(queries, {"text has no tokens": empty})


def scores(inputs: ModelInputs, queries: pd.DataFrame, candidates: pd.DataFrame) -> Floats:
    """The scores [Q, C] of the candidates for each text by the model's similarity."""
    model = inputs.model
    images = inputs.features.images(candidates, model.similarity)
    scores_CQ = model.similarity.scores(images, model.encode_texts(queries["text"].tolist()))
    return np.asarray(scores_CQ.T.double().cpu().numpy())


def predict(inputs: ModelInputs, settings: TextRetrievalSettings) -> Predictions:
    """Search the candidates for each text."""
    samples, queries, features = inputs.rows(settings.split), read_queries(inputs), inputs.features
    candidates = candidates_of(samples, features)
    queries, dropped = usable(queries, inputs.model if inputs.row is None else None)
    scores_QC = None
    if not inputs.knows_nothing:
        scores_QC = without_rounding(inputs.ask(scores, queries, candidates.table))
    scored = score_queries(queries, candidates, scores_QC, settings.cutoffs)
    return predictions_of(inputs, candidates, scored, dropped, settings)
