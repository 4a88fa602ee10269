"""Reference rows of retrieval by one threshold: nothing, a small picture, the text's length.

``thumbnail`` and ``length`` learn from the training pairs what an image of 8 x 8 pixels lets expect
of its report, its words or their number (:mod:`.pair_references`). A text's length alone would be
the same for every image, and its area 0.5 whatever the texts. Not of the paper.
"""

import numpy as np

from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.retrieval.pair_references import expected_length, expected_words
from cxrflow.benchmarks.retrieval.retrieval_auroc import (
    GLOBAL,
    Matching,
    by_distance,
    by_vectors,
    compared,
)
from cxrflow.benchmarks.retrieval.settings import RetrievalAurocSettings
from cxrflow.benchmarks.study_images import Studies, usable_studies
from cxrflow.errors import InputError

_SIDE = 8


def predict(name: str, inputs: ModelInputs, settings: RetrievalAurocSettings) -> Predictions:
    """Compare images with texts as a reference row does."""

    def matchings(studies: Studies) -> dict[str, Matching]:
        if name == "nothing":
            same_N = np.zeros(len(studies.table))
            return {GLOBAL: by_distance(same_N, same_N)}
        training = usable_studies(inputs.rows("train"), inputs.pixels, settings.sections).table
        if len(training) < 2:
            raise InputError(
                f"{inputs.source}: {len(training)} training studies; the reference row "
                f"'{name}' learns from at least 2"
            )
        learnt = (training, studies.table, inputs.pixels, _SIDE)
        if name == "length":
            return {GLOBAL: by_distance(*expected_length(*learnt))}
        return {GLOBAL: by_vectors(*expected_words(*learnt))}

    return compared(inputs, settings, matchings)
