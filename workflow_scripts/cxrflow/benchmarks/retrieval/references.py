"""What retrieves images without an encoder: a random order, and plain features of the pixels.

Not in the paper but for the random order ("Random" of Table 2), which is computed, not drawn.
"""

from argparse import Namespace

from cxrflow.benchmarks.classification.references import plain_features
from cxrflow.benchmarks.inputs import read_cohort
from cxrflow.benchmarks.result import Result
from cxrflow.benchmarks.retrieval import image_retrieval, text_retrieval
from cxrflow.benchmarks.retrieval.precision import COLUMNS
from cxrflow.benchmarks.retrieval.settings import (
    ImageRetrievalSettings,
    RetrievalSettings,
    TextRetrievalSettings,
)


def score_reference(name: str, options: Namespace, settings: RetrievalSettings) -> Result:
    if isinstance(settings, TextRetrievalSettings):
        cohort, queries = text_retrieval.read_queries(options.cohort, settings.split)
        features = plain_features(name, options.pixels, cohort.table)
        return text_retrieval.evaluate(None, cohort, queries, features, settings)
    assert isinstance(settings, ImageRetrievalSettings)
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    features = plain_features(name, options.pixels, cohort.table)
    settings = settings.model_copy(update={"features": "pooled"})
    return image_retrieval.evaluate(cohort, features, settings, any_order=name == "nothing")
