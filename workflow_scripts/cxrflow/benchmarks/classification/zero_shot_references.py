"""Reference rows of zero-shot classification: the same score for every image, and its brightness.

``brightness`` calls an image positive the brighter it is on the whole, for every class and every
pair of prompts. Not in the papers.
"""

import numpy as np
import pandas as pd

from cxrflow.benchmarks.classification.labelled_images import LabelledImages
from cxrflow.benchmarks.classification.references import plain_features
from cxrflow.benchmarks.classification.settings import (
    ZeroShotClassificationSettings,
    ZeroShotFindingsSettings,
)
from cxrflow.benchmarks.classification.zero_shot_classification import predictions_of
from cxrflow.benchmarks.classification.zero_shot_findings import label_studies
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.metrics.intervals import Floats


def predict(
    name: str, inputs: ModelInputs, settings: ZeroShotClassificationSettings
) -> Predictions:
    """Score the labelled images as a reference row does."""
    if isinstance(settings, ZeroShotFindingsSettings):
        label_studies(inputs, settings)
    table = pd.concat([inputs.rows(part) for part in settings.parts])
    thumbnail = "thumbnail" if name == "brightness" else "nothing"
    inputs.features = plain_features(thumbnail, inputs.pixels, table)
    names = ("score", *(f"score/{pair.name}" for pair in settings.prompt_pairs))

    def score(images: LabelledImages) -> dict[str, Floats]:
        scores_N = inputs.features.of(images.table, "pooled").double().mean(dim=1).numpy()
        return dict.fromkeys(names, np.tile(scores_N[:, None], (1, len(images.classes))))

    return predictions_of(inputs, settings, score)
