"""Reference rows of image and text retrieval: a random order, plain features of the pixels.

Not in the paper but for the random order ("Random" of Table 2), which is computed, not drawn.
"""

from cxrflow.benchmarks.classification.references import plain_features
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.retrieval import image_retrieval, text_retrieval
from cxrflow.benchmarks.retrieval.settings import (
    ImageRetrievalSettings,
    RetrievalSettings,
    TextRetrievalSettings,
)


def predict(name: str, inputs: ModelInputs, settings: RetrievalSettings) -> Predictions:
    """Search by the features of a reference row, or in any order."""
    inputs.features = plain_features(name, inputs.pixels, inputs.cohort.table)
    if isinstance(settings, TextRetrievalSettings):
        return text_retrieval.predict(inputs, settings, any_order=True)
    assert isinstance(settings, ImageRetrievalSettings)
    settings = settings.model_copy(update={"features": "pooled"})
    return image_retrieval.predict(inputs, settings, any_order=name == "nothing")
