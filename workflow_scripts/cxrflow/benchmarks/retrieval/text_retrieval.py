"""Text-image retrieval: which candidates have the category that a text describes? (ConVIRT 4.2.)

The score is the cosine of the two projections, v and u, as trained, or the similarity that the
model keeps in its place. Contrastive-Binary-Loss keeps none by default: the paper scores it by the
same cosine, not by the classifier's probability. Texts are embedded as they are, each as a whole.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd

import cxrflow
from cxrflow.benchmarks.features import Features, read_features
from cxrflow.benchmarks.inputs import Cohort, drop_rows, read_cohort
from cxrflow.benchmarks.result import Result
from cxrflow.benchmarks.retrieval.precision import COLUMNS, candidates_of, predict, result
from cxrflow.benchmarks.retrieval.settings import TextRetrievalSettings
from cxrflow.errors import InputError
from cxrflow.files.atomic import file_digest, fingerprint
from cxrflow.files.parquet import read_table
from cxrflow.metrics.retrieval import without_rounding
from cxrflow.training.precision import choose_device

FILE = "queries.parquet"


def read_queries(folder: Path, split: str | None) -> tuple[Cohort, pd.DataFrame]:
    """The cohort and its queries; both count for the fingerprint of the data."""
    cohort = read_cohort(folder, "samples.parquet", COLUMNS, split)
    table = read_table(folder / FILE, ("query_id", "category", "text"))
    if table.empty:
        raise InputError(f"{folder / FILE}: the table is empty; expected a row a text")
    cohort.data["fingerprint"] = fingerprint(
        [cohort.data["fingerprint"], file_digest(folder / FILE)]
    )
    # A text belongs to no patient.
    return cohort, table.rename(columns={"query_id": "sample_id"}).assign(subject_id=None)


def usable(queries: pd.DataFrame, model: Any | None) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """The queries of which the tokenizer leaves something, and those of which it does not."""
    texts = queries["text"].fillna("").tolist()
    empty = [not text.strip() for text in texts]
    if model is not None:
        empty = [all(text.special_tokens_mask) for text in model.tokenizer.encode_batch(texts)]
    return drop_rows(queries, {"text has no tokens": empty})


def evaluate(
    model: Any | None,
    cohort: Cohort,
    queries: pd.DataFrame,
    features: Features,
    settings: TextRetrievalSettings,
) -> Result:
    """Search the candidates for each text; without a model: what a random order gets."""
    candidates = candidates_of(cohort, features)
    queries, dropped = usable(queries, model)
    scores_QC = None
    if model is not None:
        images = features.images(candidates.table, model.similarity)
        scores_CQ = model.similarity.scores(images, model.encode_texts(queries["text"].tolist()))
        scores_QC = without_rounding(scores_CQ.T.double().cpu().numpy())
    predictions = predict(queries, candidates, scores_QC, settings.cutoffs)
    return result("text_retrieval", cohort, candidates, predictions, dropped, features, settings)


def score(options: Namespace, settings: TextRetrievalSettings) -> Result:
    cohort, queries = read_queries(options.cohort, settings.split)
    features = read_features(options.features, options.model)
    model = cxrflow.load(options.model, choose_device(settings.device))
    return evaluate(model, cohort, queries, features, settings)
