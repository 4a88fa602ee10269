"""Reference rows of image-text retrieval: the commonest texts, and what a thumbnail predicts.

``frequent`` ranks texts by the number of training studies that have them, the same for every image.
Where many studies share a text, that alone finds many reports.

``thumbnail`` and ``length`` are ridge regressions from thumbnails of 48 x 48 pixels; leave-one-out
error chooses their penalty. ``thumbnail`` predicts the 128 greatest components of the words of an
image's report (TF-IDF) and ranks texts by the cosine with them. ``length`` predicts the logarithm
of their number and ranks texts by the difference.

``nothing`` is a random order, whose scores are computed exactly. Not of a paper.
"""

from typing import Any

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.references import thumbnails
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.retrieval.pair_retrieval import plain, ranked
from cxrflow.benchmarks.retrieval.settings import PairRetrievalSettings
from cxrflow.benchmarks.study_images import Studies, usable_studies
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.retrieval import cosines

_SIDE, _COMPONENTS, _BATCH = 48, 128, 256
_PENALTIES = np.logspace(0, 6, 13)


def predict(name: str, inputs: ModelInputs, settings: PairRetrievalSettings) -> Predictions:
    """Rank texts and images as a reference row does."""
    if name == "nothing":
        return ranked(inputs, settings, lambda studies: None)

    def scores(studies: Studies) -> Floats:
        training = usable_studies(inputs.rows("train"), inputs.pixels, settings.sections).table
        if len(training) < 2:
            raise InputError(
                f"{inputs.source}: {len(training)} training studies; the reference row "
                f"'{name}' learns from at least 2"
            )
        if name == "frequent":
            return by_frequency(training, studies.table)
        described = by_length if name == "length" else by_words
        return described(training, studies.table, inputs.pixels)

    return ranked(inputs, settings, scores)


def by_frequency(training: pd.DataFrame, table: pd.DataFrame) -> Floats:
    """Number [N, N] of training studies with each text, the same for every image."""
    counts = plain(training["text"]).value_counts()
    frequency_N = plain(table["text"]).map(counts).fillna(0).to_numpy("float64")
    return np.tile(frequency_N, (len(table), 1))


def by_words(training: pd.DataFrame, table: pd.DataFrame, pixels: Pixels) -> Floats:
    """Cosines [N, N] of the words predicted of each image with those of each text."""
    return cosines(*expected_words(training, table, pixels, _SIDE))


def expected_words(
    training: pd.DataFrame, table: pd.DataFrame, pixels: Pixels, side: int
) -> tuple[Floats, Floats]:
    """Components [N, F] that are predicted for each image, and those of each text."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(sublinear_tf=True)
    counts = words.fit_transform(training["text"])
    components = TruncatedSVD(min(_COMPONENTS, min(counts.shape) - 1), random_state=0)
    describe = make_pipeline(words, components.fit(counts))
    expected_NF = _map(training, describe.transform(training["text"]), table, pixels, side)
    return expected_NF, describe.transform(table["text"])


def by_length(training: pd.DataFrame, table: pd.DataFrame, pixels: Pixels) -> Floats:
    """Differences [N, N], negative, of the length predicted of each image and each text's."""
    expected_N, length_N = expected_length(training, table, pixels, _SIDE)
    return -np.abs(expected_N[:, None] - length_N)


def expected_length(
    training: pd.DataFrame, table: pd.DataFrame, pixels: Pixels, side: int
) -> tuple[Floats, Floats]:
    """Logarithm [N] of the number of words, predicted for each image and of each text."""

    def length(texts: pd.Series) -> Floats:
        return np.log(texts.str.split().map(len).to_numpy("float64"))

    expected_N = _map(training, length(training["text"]), table, pixels, side)
    return expected_N, length(table["text"])


def _map(
    training: pd.DataFrame, targets: Floats, table: pd.DataFrame, pixels: Pixels, side: int
) -> Floats:
    """Predict the targets of the images of ``table`` from their thumbnails."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression: Any = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES))
    regression.fit(_thumbnails(training, pixels, side), targets)
    return np.asarray(regression.predict(_thumbnails(table, pixels, side)), dtype=np.float64)


def _thumbnails(table: pd.DataFrame, pixels: Pixels, side: int) -> Floats:
    rows = pixels.rows(table["image_id"])
    starts = range(0, len(rows), _BATCH)
    return np.concatenate([thumbnails(pixels.read(rows[i : i + _BATCH]), side) for i in starts])
