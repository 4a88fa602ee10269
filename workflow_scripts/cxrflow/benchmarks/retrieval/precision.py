"""What both retrievals share: candidates, their order for each query, precision among the first k.

Zero-shot retrieval of ConVIRT (section 4.2, Appendices C and D): all candidates are ranked by their
cosine with a query, and the first k are counted that have its category. Candidates of equal cosine
stand in the order of their ids. A score is the mean over queries; its interval is over queries,
those of one patient drawn together, with the candidates as they are.

``chance`` is what a random order gets, whatever k: a category's share of the candidates.
``other_category/<k>`` is a control: each query is judged by the category of another one.
"""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.grounding.controls import exchange
from cxrflow.benchmarks.inputs import Cohort, drop_rows
from cxrflow.benchmarks.result import Result, estimates, slug
from cxrflow.benchmarks.retrieval.settings import RetrievalSettings
from cxrflow.errors import InputError
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, weighted_mean
from cxrflow.metrics.retrieval import precision, ranking

log = logging.getLogger("cxrflow")

COLUMNS = ("sample_id", "subject_id", "image_id", "part", "category")
SHOWN = ["sample_id", "subject_id", "category"]  # of predictions.parquet
PRECISION, OTHER, CHANCE = "precision", "other_category", "chance"


@dataclass(frozen=True)
class Candidates:
    """The images that are searched: a row each, in the order of ``image_id``."""

    table: pd.DataFrame
    dropped: list[dict[str, Any]]


def candidates_of(cohort: Cohort, features: Features) -> Candidates:
    """The candidates with features, each image once."""
    table = cohort.table[cohort.table["part"] == "candidate"].sort_values("image_id")
    if table.empty:
        raise InputError("samples.parquet: column 'part' has no 'candidate'; expected some")
    tests = {
        "candidate is not in the pixel store": features.rows(table) < 0,
        "candidate is listed before": table["image_id"].duplicated(),
    }
    return Candidates(*drop_rows(table, tests))


def predict(
    queries: pd.DataFrame, candidates: Candidates, scores_QC: Floats | None, cutoffs: list[int]
) -> pd.DataFrame:
    """Precision at each cutoff, and the control's, a row a query; ``scores_QC`` None: of any order.

    Raises:
        InputError: a cutoff is beyond the candidates, or a query's category is none of theirs.
    """
    found = candidates.table["category"].to_numpy()
    if cutoffs[-1] > len(found):
        raise InputError(
            f"settings: key 'cutoffs' has {cutoffs[-1]}; there are {len(found)} candidates"
        )
    asked = queries["category"].to_numpy()
    strange = sorted(set(asked) - set(found))
    if strange:
        raise InputError(
            f"queries of category '{strange[0]}' have no candidate; expected a category of the "
            f"candidates: {', '.join(sorted(set(found)))}"
        )
    relevant_QC = asked[:, None] == found
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
    return queries[SHOWN].reset_index(drop=True).assign(**columns, **{CHANCE: chance_Q})


def measured(
    predictions: pd.DataFrame, settings: RetrievalSettings
) -> dict[str, tuple[Floats, Floats]]:
    """By metric the values [Q] whose mean it is, and which queries [Q] count."""
    every = np.ones(len(predictions), dtype=bool)
    named = [f"{kind}/{k}" for kind in (PRECISION, OTHER) for k in settings.cutoffs]
    parts = {name: (predictions[name].to_numpy(), every) for name in (*named, CHANCE)}
    for category in sorted(set(predictions["category"])):
        own = (predictions["category"] == category).to_numpy()
        for name in named[: len(settings.cutoffs)]:
            parts[f"{name}/{slug(category)}"] = (predictions[name].to_numpy(), own)
    return parts


def statistics(predictions: pd.DataFrame, settings: RetrievalSettings) -> Statistic:
    """Mean precision at each cutoff, of all queries and of each category's."""
    parts = measured(predictions, settings)

    def metrics(counts: Floats) -> dict[str, Floats]:
        return {name: weighted_mean(counts, *part) for name, part in parts.items()}

    return metrics


def summarise(predictions: pd.DataFrame, settings: RetrievalSettings) -> dict[str, Estimate]:
    parts = measured(predictions, settings)
    sizes = {name: int((np.isfinite(values) & own).sum()) for name, (values, own) in parts.items()}
    return estimates(statistics(predictions, settings), predictions, sizes, settings.intervals)


def result(
    benchmark: str,
    cohort: Cohort,
    candidates: Candidates,
    predictions: pd.DataFrame,
    dropped: list[dict[str, Any]],
    features: Features,
    settings: RetrievalSettings,
) -> Result:
    """What is written for the precision of each query; ``dropped``: queries that are left out."""
    metrics = summarise(predictions, settings)
    patients = candidates.table["subject_id"].dropna()
    counts = candidates.table["category"].value_counts().sort_index()
    data = {
        **cohort.data,
        "pictures": features.pixels,
        "queries": len(predictions),
        "queries_of_patients_among_candidates": int(predictions["subject_id"].isin(patients).sum()),
        "candidates": counts.to_dict(),
        "dropped": [*dropped, *candidates.dropped],
    }
    protocol = {
        **settings.model_dump(mode="json", exclude={"device"}),
        "geometry": features.geometry,
        "ties": "in the order of image ids",
    }
    first = f"{PRECISION}/{settings.cutoffs[0]}"
    log.info("%s %.3f, by chance %.3f", first, metrics[first].value, metrics[CHANCE].value)
    return Result(benchmark, data, protocol, metrics, predictions)
