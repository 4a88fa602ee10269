"""Reference rows of retrieval by one threshold over all pairs. Not of the paper.

``thumbnail`` and ``length`` predict from an image of 8 x 8 pixels the words of its report, or their
number; they learn this from the training pairs (:mod:`.pair_references`). The length of a text
alone would be the same for every image, and its area 0.5 whatever the texts are.

``labels`` is an oracle that knows the labels of both studies and nothing else of them: a pair's
score is the share of classes on which they agree. ``states`` is one that knows the whole state of
both, as the synthetic hospital draws it: an image fits the reports of all studies in its state, and
no other. So its area is the most that can be reached. ``nothing`` gives every pair the same score.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_hospital.truth import TABLES, read_truth
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
from cxrflow.metrics.intervals import Floats

_SIDE = 8
_UNKNOWN = -2.0  # in place of a label that is not there


def predict(name: str, inputs: ModelInputs, settings: RetrievalAurocSettings) -> Predictions:
    """Compare images with texts as a reference row does."""

    def matchings(studies: Studies) -> dict[str, Matching]:
        if name == "nothing":
            same_N = np.zeros(len(studies.table))
            return {GLOBAL: by_distance(same_N, same_N)}
        if name == "labels":
            agreeing_NL = one_hot(studies.table, inputs)
            return {GLOBAL: by_vectors(agreeing_NL, agreeing_NL)}
        if name == "states":
            state_N = states(studies.table, inputs)
            return {GLOBAL: by_equality(state_N)}
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


def states(table: pd.DataFrame, inputs: ModelInputs) -> NDArray[np.int64]:
    """The number of the state of each study [N], equal where all that is drawn is equal."""
    folder = inputs.options.truth
    known = read_truth(folder, "states", ("study_id", "state")).assign(
        study_id=lambda t: t["study_id"].map(str)
    )
    state_N = table["study_id"].map(str).map(known.set_index("study_id")["state"])
    if state_N.isna().any():
        study = table["study_id"][state_N.isna()].iloc[0]
        file = TABLES["states"].file
        raise InputError(f"{folder / file}: has no study {study} of {inputs.source}")
    return np.asarray(pd.factorize(state_N)[0], dtype=np.int64)


def by_equality(state_N: NDArray[np.int64]) -> Matching:
    """Matching of studies in one state: 1, and 0 of all others."""

    def block(rows: slice) -> Floats:
        return (state_N[rows, None] == state_N).astype(np.float64)

    return Matching(block, block, lambda number_N: (state_N == state_N[number_N]).astype(float))


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
