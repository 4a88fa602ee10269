"""Image-text retrieval: does an image find its own report among all, and a report its image?

For data without boxes and labels; not of the papers, but the protocol that is common: recall at k,
the share of queries whose own counterpart is among the first k by the model's similarity, and the
median rank of the counterpart, in both directions. Reports often agree word for word ("No acute
cardiopulmonary process."), so each text stands once, with the first study that has it; the others
are counted as left out. Intervals are over queries, those of one patient drawn together, with the
candidates as they are.

``other_study/recall/<k>``: the share that has another patient's counterpart among the first k;
what stands above it is owed to the pair.
"""

from typing import Any

import numpy as np
import pandas as pd

from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.generation.report_retrieval import encode_texts
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.benchmarks.retrieval.settings import PairRetrievalSettings
from cxrflow.benchmarks.study_images import STUDY, Studies, encode_studies, usable_studies
from cxrflow.metrics.intervals import Floats, weighted_mean, weighted_median
from cxrflow.metrics.retrieval import ranks, without_rounding
from cxrflow.similarity.similarity import EncodedImages

COLUMNS = STUDY

DIRECTIONS = ("image_to_text", "text_to_image")
RECALL, RANK, OTHER = "recall", "median_rank", "other_study/recall"


def distinct(studies: Studies) -> Studies:
    """Return the first study of each text; blanks and case make no other text."""
    text = studies.table["text"].str.lower().str.split().str.join(" ")
    table, dropped = drop_rows(
        studies.table, {"another study has the same text": text.duplicated()}
    )
    return Studies(table, [*studies.dropped, *dropped])


def reached(ranks_Q: Floats, cutoff: int) -> Floats:
    """1 for each query whose rank is at most k, else 0; NaN where there is no rank."""
    return np.where(np.isnan(ranks_Q), np.nan, ranks_Q <= cutoff)


def score_studies(
    table: pd.DataFrame, scores_NN: Floats | None, cutoffs: list[int]
) -> pd.DataFrame:
    """Return each study's ranks and what they reach, by scores [image, text]; None: any order."""
    count = len(table)
    partner_N = exchange(table["subject_id"].fillna(table["study_id"]))
    has_partner = partner_N >= 0
    columns: dict[str, Any] = {}
    for direction in DIRECTIONS:
        if scores_NN is None:  # the mean over all orders
            by_chance = {k: np.full(count, min(1.0, k / count)) for k in cutoffs}
            columns[f"{RANK}/{direction}"] = np.full(count, (count + 1) / 2)
            columns |= {f"{RECALL}/{k}/{direction}": share for k, share in by_chance.items()}
            of_partner = {k: np.where(has_partner, share, np.nan) for k, share in by_chance.items()}
        else:
            scores_QC = scores_NN if direction == DIRECTIONS[0] else scores_NN.T
            own_Q = ranks(scores_QC, np.arange(count))
            other_Q = np.where(has_partner, ranks(scores_QC, np.maximum(partner_N, 0)), np.nan)
            columns[f"{RANK}/{direction}"] = own_Q
            columns |= {f"{RECALL}/{k}/{direction}": reached(own_Q, k) for k in cutoffs}
            of_partner = {k: reached(other_Q, k) for k in cutoffs}
        columns |= {f"{OTHER}/{k}/{direction}": share for k, share in of_partner.items()}
    return table[["sample_id", "subject_id", "study_id"]].reset_index(drop=True).assign(**columns)


def statistic(predictions: pd.DataFrame, settings: PairRetrievalSettings) -> CountedStatistic:
    """Recall at each cutoff, the control's, and the median rank, in each direction."""
    columns = {
        name: predictions[name].to_numpy("float64")
        for name in map(str, predictions.columns)
        if name.endswith(DIRECTIONS)
    }

    def metrics(counts: Floats) -> dict[str, Floats]:
        return {
            name: (weighted_median if name.startswith(RANK) else weighted_mean)(counts, values)
            for name, values in columns.items()
        }

    return CountedStatistic(metrics, lambda name: int(np.isfinite(columns[name]).sum()))


def predict(
    inputs: ModelInputs, settings: PairRetrievalSettings, any_order: bool = False
) -> Predictions:
    """Rank all texts for each image and all images for each text."""
    rows, model = inputs.rows(settings.split), None if any_order else inputs.model
    studies = distinct(usable_studies(rows, inputs.pixels, settings.sections))
    scores_NN = None
    if model is not None:
        by_kind = encode_studies(model, inputs.pixels, studies.table, settings.batch_size)
        images = EncodedImages(by_kind["projected"], by_kind.get("patches"))
        texts = encode_texts(model, studies.table["text"].tolist(), settings.batch_size)
        scores_NN = without_rounding(model.similarity.scores(images, texts).double().cpu().numpy())
    table = score_studies(studies.table, scores_NN, settings.cutoffs)
    return Predictions(
        table,
        statistic(table, settings),
        {
            "pictures": inputs.pixels.fingerprint,
            "samples": len(table),
            "dropped": studies.dropped,
        },
        {
            "geometry": str(inputs.pixels.geometry),
            "candidates": "each text once, with the first study that has it",
            "ties": "mean rank of equal scores",
        },
    )
