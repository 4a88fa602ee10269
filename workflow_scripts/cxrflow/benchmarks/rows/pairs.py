"""Baselines and oracles of pairs: the commonest texts, what a thumbnail predicts, known states.

``frequent`` ranks texts by the number of training studies that have them, the same for every image.
Where many studies share a text, that alone finds many reports.

``thumbnail`` and ``length`` are ridge regressions from thumbnails, of 48 x 48 pixels where texts
and images are ranked and of 8 x 8 where one threshold serves all pairs; leave-one-out error chooses
their penalty. ``thumbnail`` predicts the 128 greatest components of the words of an image's report
(TF-IDF) and compares texts with them by the cosine. ``length`` predicts the logarithm of their
number and compares by the difference. The length of a text alone would be the same for every image,
and its area 0.5 whatever the texts are.

``labels`` is an oracle that knows the labels of both studies and nothing else of them: a pair's
score is the share of classes on which they agree. ``states`` is one that knows the whole state of
both, as the synthetic hospital draws it: an image fits the reports of all studies in its state, and
no other. So its area is the most that can be reached.

``nothing`` is a random order, whose scores are computed exactly, or gives every pair the same
score. Not of a paper.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Pixels
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.retrieval.pair_retrieval import plain
from cxrflow.benchmarks.retrieval.retrieval_auroc import GLOBAL
from cxrflow.benchmarks.rows.pictures import thumbnails
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.rows.truth import STATES, states
from cxrflow.benchmarks.study_images import Studies, usable_studies
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.retrieval import cosines
from cxrflow.similarity.pairs import Pairs, by_vectors, in_units

_SIDE, _SMALL_SIDE, _COMPONENTS, _BATCH = 48, 8, 128, 256
_PENALTIES = np.logspace(0, 6, 13)
_UNKNOWN = -2.0  # in place of a label that is not there


class RankedPairs(Row):
    """Ranks the texts for each image and the images for each text."""

    def scores(self, inputs: ModelInputs, studies: Studies, settings: Any) -> Floats:
        """Scores [image, text] of all studies."""
        if self.name == STATES:
            state_N = numbered_states(studies.table, inputs)
            return by_equality(state_N).of_images(slice(0, len(state_N)))
        training = training_studies(self.name, inputs, settings)
        if self.name == "frequent":
            return by_frequency(training, studies.table)
        learnt = (training, studies.table, inputs.pixels, _SIDE)
        if self.name == "length":
            expected_N, length_N = expected_length(*learnt)
            return -np.abs(expected_N[:, None] - length_N)
        return cosines(*expected_words(*learnt))


class AllPairs(Row):
    """Compares all images with all texts."""

    def scores(self, inputs: ModelInputs, studies: Studies, settings: Any) -> dict[str, Pairs]:
        """The pairs as wholes."""
        return {GLOBAL: self._pairs(inputs, studies.table, settings)}

    def _pairs(self, inputs: ModelInputs, table: pd.DataFrame, settings: Any) -> Pairs:
        if self.name == "nothing":
            same_N = np.zeros(len(table))
            return by_distance(same_N, same_N)
        if self.name == "labels":
            agreeing_NL = one_hot(table, inputs)
            return by_vectors(agreeing_NL, agreeing_NL)
        if self.name == STATES:
            return by_equality(numbered_states(table, inputs))
        training = training_studies(self.name, inputs, settings)
        learnt = (training, table, inputs.pixels, _SMALL_SIDE)
        if self.name == "length":
            return by_distance(*expected_length(*learnt))
        return by_vectors(*expected_words(*learnt))


def training_studies(name: str, inputs: ModelInputs, settings: Any) -> pd.DataFrame:
    """The studies that a baseline learns from."""
    training = usable_studies(inputs.rows("train"), inputs.pixels, settings.sections).table
    if len(training) < 2:
        raise InputError(
            f"{inputs.source}: {len(training)} training studies; the reference row '{name}' "
            "learns from at least 2"
        )
    return training


def by_frequency(training: pd.DataFrame, table: pd.DataFrame) -> Floats:
    """Number [N, N] of training studies with each text, the same for every image."""
    counts = plain(training["text"]).value_counts()
    frequency_N = plain(table["text"]).map(counts).fillna(0).to_numpy("float64")
    return np.tile(frequency_N, (len(table), 1))


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


def numbered_states(table: pd.DataFrame, inputs: ModelInputs) -> NDArray[np.int64]:
    """The number of the state of each study [N], equal where all that is drawn is equal."""
    state_N = states(inputs.options.truth, table, inputs.source)
    return np.asarray(pd.factorize(state_N)[0], dtype=np.int64)


def by_distance(image_N: Floats, text_N: Floats) -> Pairs:
    """Pairs by the distance of two numbers: a smaller distance is a better match."""

    def block(queries: Floats, candidates: Floats) -> Floats:
        return in_units(-np.abs(queries - candidates))

    return Pairs(
        lambda rows: block(image_N[rows, None], text_N),
        lambda rows: block(text_N[rows, None], image_N),
        lambda number_N: block(image_N, text_N[number_N]),
    )


def by_equality(state_N: NDArray[np.int64]) -> Pairs:
    """Pairs of studies in one state: 1, and 0 of all others."""

    def block(rows: slice) -> Floats:
        return (state_N[rows, None] == state_N).astype(np.float64)

    return Pairs(block, block, lambda number_N: (state_N == state_N[number_N]).astype(float), 1.0)


def one_hot(table: pd.DataFrame, inputs: ModelInputs) -> Floats:
    """Labels [N, L] of the studies, a column for each value of each class: the cosine of two
    studies is the share of classes on which they agree."""
    if "labels" not in table:
        raise InputError(
            f"{inputs.source}: column 'labels' is missing; the reference row 'labels' expects it, "
            "as a cohort with `labels: published` has it"
        )
    labels_NC = np.nan_to_num(np.stack(table["labels"].tolist()), nan=_UNKNOWN)
    values = np.unique(labels_NC)
    return (labels_NC[:, :, None] == values).reshape(len(table), -1).astype(np.float64)
