"""Image-image retrieval: which candidates have the category of an image? (ConVIRT section 4.2.)

The vector of an image is the output of f_v, the trunk's features averaged over the grid, so that
encoders without a joint space are scored alike. How candidates are ranked and counted is in
``retrieval.precision``.
"""

from dataclasses import replace

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.retrieval.precision import (
    RETRIEVAL,
    candidates_of,
    predictions_of,
    score_queries,
)
from cxrflow.benchmarks.retrieval.settings import ImageRetrievalSettings
from cxrflow.metrics.retrieval import cosines

COLUMNS = RETRIEVAL


def predict(inputs: ModelInputs, settings: ImageRetrievalSettings) -> Predictions:
    """Search the candidates for each query image."""
    table, features = inputs.rows(settings.split), inputs.features
    candidates = candidates_of(table, features)
    queries = table[table["part"] == "query"]
    if queries.empty:
        raise InputError("samples.parquet: column 'part' has no 'query'; expected query images")
    tests = {
        "query is not in the pixel store": features.rows(queries) < 0,
        "query stands among the candidates": queries["image_id"].isin(candidates.table["image_id"]),
    }
    queries, dropped = drop_rows(queries, tests)
    scores_QC = None
    if not inputs.knows_nothing:
        queries_QF, candidates_CF = (
            features.of(images, settings.features).double().numpy()
            for images in (queries, candidates.table)
        )
        scores_QC = cosines(queries_QF, candidates_CF)
    scored = score_queries(queries, candidates, scores_QC, settings.cutoffs)
    predictions = predictions_of(inputs, candidates, scored, dropped, settings)
    protocol = {**predictions.protocol, "features": settings.features}
    return replace(predictions, protocol=protocol)
