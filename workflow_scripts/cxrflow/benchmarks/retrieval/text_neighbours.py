"""Texts of training beside the nearest texts of other studies (Windsor et al. 2023, Figure 6).

The paper takes its examples from the queue of DeCLIP, whose vectors are of earlier weights, and
does not say how they were chosen. Here the trained encoder embeds the texts, and the examples stand
at equal distances in the order of the cosine.

Shapes: N searched texts, Q queries, P width of the joint space.
"""

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_files.ids import entry
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs
from cxrflow.benchmarks.generation.report_retrieval import encode_different
from cxrflow.benchmarks.generation.side_by_side import at_quantiles
from cxrflow.benchmarks.retrieval.pair_retrieval import plain
from cxrflow.benchmarks.retrieval.settings import NeighboursFigureSettings
from cxrflow.data.cohorts.filters import unit_hash
from cxrflow.models.loading import load
from cxrflow.text.report_prompts import report_texts

COLUMNS = ("subject_id", "study_id", "split", "findings", "impression")


def nearest_texts(
    vectors_NP: NDArray[np.float64],
    excluded: list[NDArray[np.int64]],
    queries: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The nearest of the other texts of each of the first ``queries``, and its cosine.

    Texts with an equal number in one of the ``excluded`` arrays [N] are never each other's.
    A query without another text has the cosine -inf.
    """
    unit_NP = vectors_NP / np.linalg.norm(vectors_NP, axis=1, keepdims=True)
    cosine_QN = unit_NP[:queries] @ unit_NP.T
    for number_N in excluded:
        cosine_QN[number_N[:queries, None] == number_N] = -np.inf
    place_Q = cosine_QN.argmax(axis=1)
    return place_Q, cosine_QN[np.arange(len(place_Q)), place_Q]


@torch.inference_mode()
def draw(inputs: FigureInputs, settings: NeighboursFigureSettings) -> FigureDrawing:
    """Return no picture, but the page's table: a row for each example."""
    ((label, result),) = inputs.columns(settings.columns).items()
    table = inputs.cohort.table
    table = table[table["split"] == "train"]
    table = table.assign(text=report_texts(table, settings.sections))
    table = table[table["text"] != ""]
    order = np.argsort([unit_hash(study) for study in table["study_id"]], kind="stable")
    table = table.iloc[order[: settings.searched]].reset_index(drop=True)
    texts, studies = plain(table["text"]), table["study_id"]
    if texts.nunique() < 2:
        raise InputError(
            f"{inputs.folder}: {texts.nunique()} different texts of training; expected 2 or more"
        )
    model = load(result.options["models"])
    batches, places = encode_different(model, table["text"].tolist(), settings.batch_size)
    vectors_NP = torch.cat([batch.projection for batch in batches])[places].double().numpy()
    excluded = [pd.factorize(values)[0] for values in (texts, studies)]
    place_Q, cosine_Q = nearest_texts(vectors_NP, excluded, settings.queries)
    cosines = pd.Series(cosine_Q)
    rows = [
        {
            **entry("study", str(studies[query])),
            "note": f"cosine {cosine_Q[query]:.2f}",
            "texts": [[(table["text"][place], None)] for place in (query, place_Q[query])],
        }
        for query in at_quantiles(cosines[np.isfinite(cosines)], settings.count)
    ]
    caption = (
        f"Of {len(cosines)} impressions, the nearest of {len(table)} of training by the cosine of "
        "the text encoder; first seed. Examples stand at equal distances in the order of the "
        "cosine. Texts of the same study or of the same words are left out."
    )
    columns = ["Original impression", label]
    return FigureDrawing(None, caption, [], ["reports"], {"columns": columns, "rows": rows})
