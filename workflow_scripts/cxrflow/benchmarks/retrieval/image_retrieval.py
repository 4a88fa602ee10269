"""Image-image retrieval: which candidates have the category of an image? (ConVIRT section 4.2.)

The vector of an image is the output of f_v, the trunk's features averaged over the grid, so that
encoders without a joint space are scored alike. How candidates are ranked and counted is in
``retrieval.precision``.
"""

from argparse import Namespace

from cxrflow.benchmarks.features import Features, read_features
from cxrflow.benchmarks.inputs import Cohort, drop_rows, read_cohort
from cxrflow.benchmarks.result import Result
from cxrflow.benchmarks.retrieval.precision import COLUMNS, candidates_of, predict, result
from cxrflow.benchmarks.retrieval.settings import ImageRetrievalSettings
from cxrflow.errors import InputError
from cxrflow.metrics.retrieval import cosines


def evaluate(
    cohort: Cohort,
    features: Features,
    settings: ImageRetrievalSettings,
    any_order: bool = False,
) -> Result:
    """Search the candidates for each query image; ``any_order``: what a random order gets."""
    candidates = candidates_of(cohort, features)
    queries = cohort.table[cohort.table["part"] == "query"]
    if queries.empty:
        raise InputError("samples.parquet: column 'part' has no 'query'; expected query images")
    tests = {
        "query is not in the pixel store": features.rows(queries) < 0,
        "query stands among the candidates": queries["image_id"].isin(candidates.table["image_id"]),
    }
    queries, dropped = drop_rows(queries, tests)
    scores_QC = None
    if not any_order:
        own, searched = (
            features.of(table, settings.features).double().numpy()
            for table in (queries, candidates.table)
        )
        scores_QC = cosines(own, searched)
    predictions = predict(queries, candidates, scores_QC, settings.cutoffs)
    return result("image_retrieval", cohort, candidates, predictions, dropped, features, settings)


def score(options: Namespace, settings: ImageRetrievalSettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    return evaluate(cohort, read_features(options.features, options.model), settings)
