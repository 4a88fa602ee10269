"""Retrieval by image and by text: candidates, their order for a query, precision at k.

Zero-shot retrieval of ConVIRT (section 4.2, Appendices C and D): all candidates are ranked by their
cosine with a query, and the first k are counted that have its category. Candidates of equal cosine
stand in the order of their ids. A score is the mean over queries; its interval is over queries,
those of one patient drawn together, with the candidates as they are.

``chance`` is what a random order gets, whatever k: a category's share of the candidates.
``other_category/<k>`` is a control: each query is judged by the category of another one.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means, slug
from cxrflow.benchmarks.retrieval.settings import RetrievalSettings
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.retrieval import precision, ranking

RETRIEVAL = ("sample_id", "subject_id", "image_id", "part", "category")
SHOWN = ["sample_id", "subject_id", "category"]  # of predictions.parquet
PRECISION, OTHER, CHANCE = "precision", "other_category", "chance"


class Candidates(NamedTuple):
    """The images that are searched: a row each, in the order of ``image_id``."""

    table: pd.DataFrame
    dropped: list[dict[str, Any]]


def candidates_of(samples: pd.DataFrame, features: Features) -> Candidates:
    """Return the candidates with features, each image once."""
    table = samples[samples["part"] == "candidate"].sort_values("image_id")
    if table.empty:
        raise InputError("samples.parquet: column 'part' has no 'candidate'; expected some")
    tests = {
        "candidate is not in the pixel store": features.rows(table) < 0,
        "candidate is listed before": table["image_id"].duplicated(),
    }
    return Candidates(*drop_rows(table, tests))


def score_queries(
    queries: pd.DataFrame, candidates: Candidates, scores_QC: Floats | None, cutoffs: list[int]
) -> pd.DataFrame:
    """Return the precision of each query at each cutoff, and the control's.

    ``scores_QC`` None: what a random order gets.

    Raises:
        InputError: a cutoff is beyond the candidates, or a query's category is none of theirs.
    """
    categories_C = candidates.table["category"].to_numpy()
    if cutoffs[-1] > len(categories_C):
        raise InputError(
            f"settings: key 'cutoffs' has {cutoffs[-1]}; there are {len(categories_C)} candidates"
        )
    categories_Q = queries["category"].to_numpy()
    strange = sorted(set(categories_Q) - set(categories_C))
    if strange:
        raise InputError(
            f"queries of category '{strange[0]}' have no candidate; expected a category of the "
            f"candidates: {', '.join(sorted(set(categories_C)))}"
        )
    relevant_QC = categories_Q[:, None] == categories_C
    chance_Q = relevant_QC.mean(axis=1)
    partner_Q = exchange(queries["category"])  # whose order a query's category is held against
    columns = dict.fromkeys((f"{PRECISION}/{k}" for k in cutoffs), chance_Q)
    columns |= dict.fromkeys((f"{OTHER}/{k}" for k in cutoffs), chance_Q)
    if scores_QC is not None:
        order_QC = ranking(scores_QC)
        for name, ranked_QC in ((PRECISION, order_QC), (OTHER, order_QC[partner_Q])):
            of_query_QK = precision(np.take_along_axis(relevant_QC, ranked_QC, axis=1), cutoffs)
            columns |= {f"{name}/{k}": of_query_QK[:, i] for i, k in enumerate(cutoffs)}
    for k in cutoffs:
        columns[f"{OTHER}/{k}"] = np.where(partner_Q < 0, np.nan, columns[f"{OTHER}/{k}"])
    searched = {"candidates": len(categories_C), "relevant": relevant_QC.sum(axis=1)}
    return queries[SHOWN].reset_index(drop=True).assign(**columns, **{CHANCE: chance_Q}, **searched)


def statistic(predictions: pd.DataFrame, settings: RetrievalSettings) -> CountedStatistic:
    """Mean precision at each cutoff, of all queries and of each category's; the control; chance."""
    everything = np.ones(len(predictions), dtype=bool)
    cutoffs = [f"{PRECISION}/{k}" for k in settings.cutoffs]
    controls = [f"{OTHER}/{k}" for k in settings.cutoffs]
    columns = {name: (predictions[name], everything) for name in (*cutoffs, *controls, CHANCE)}
    for category in sorted(set(predictions["category"])):
        rows = (predictions["category"] == category).to_numpy()
        columns |= {f"{name}/{slug(category)}": (predictions[name], rows) for name in cutoffs}

    def behind(name: str) -> dict[str, int]:
        least = int(predictions["relevant"][np.asarray(columns[name][1])].min())
        return {"candidates": int(predictions["candidates"].iloc[0]), "least_relevant": least}

    return replace(means(columns), behind=behind)


def predictions_of(
    inputs: ModelInputs,
    candidates: Candidates,
    table: pd.DataFrame,
    dropped: list[dict[str, Any]],
    settings: RetrievalSettings,
) -> Predictions:
    """Return what is reported of scored queries; ``dropped``: queries that are left out."""
    patients = candidates.table["subject_id"].dropna()
    counts = candidates.table["category"].value_counts().sort_index()
    return Predictions(
        table,
        statistic(table, settings),
        {
            "pictures": inputs.features.pixels,
            "queries": len(table),
            "queries_of_patients_among_candidates": int(table["subject_id"].isin(patients).sum()),
            "candidates": counts.to_dict(),
            "dropped": [*dropped, *candidates.dropped],
        },
        {"geometry": inputs.features.geometry, "ties": "in the order of image ids"},
    )
