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

import logging
from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd

import cxrflow
from cxrflow.benchmarks.generation.report_retrieval import encode_texts
from cxrflow.benchmarks.grounding.controls import exchange
from cxrflow.benchmarks.inputs import Pixels, drop_rows, open_pixels
from cxrflow.benchmarks.result import Result, estimates
from cxrflow.benchmarks.retrieval.settings import PairRetrievalSettings
from cxrflow.benchmarks.study_images import Studies, encode_studies, read_studies
from cxrflow.metrics.intervals import Floats, Statistic, weighted_mean, weighted_median
from cxrflow.metrics.retrieval import ranks, without_rounding
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

DIRECTIONS = ("image_to_text", "text_to_image")
RECALL, RANK, OTHER = "recall", "median_rank", "other_study/recall"


def distinct(studies: Studies) -> Studies:
    """The first study of each text, but for blanks and case."""
    text = studies.table["text"].str.lower().str.split().str.join(" ")
    table, dropped = drop_rows(
        studies.table, {"another study has the same text": text.duplicated()}
    )
    return Studies(studies.cohort, table, [*studies.dropped, *dropped])


def reached(ranks_Q: Floats, cutoff: int) -> Floats:
    """1 for each query whose rank is at most k, else 0; NaN where there is no rank."""
    return np.where(np.isnan(ranks_Q), np.nan, ranks_Q <= cutoff)


def predict(table: pd.DataFrame, scores_NN: Floats | None, cutoffs: list[int]) -> pd.DataFrame:
    """Ranks and what they reach, a row a study; ``scores_NN`` [image, text], None: of any order."""
    count = len(table)
    partner_N = exchange(table["subject_id"].fillna(table["study_id"]))
    known = partner_N >= 0
    columns: dict[str, Any] = {}
    for direction in DIRECTIONS:
        if scores_NN is None:  # the mean over all orders
            by_chance = {k: np.full(count, min(1.0, k / count)) for k in cutoffs}
            columns[f"{RANK}/{direction}"] = np.full(count, (count + 1) / 2)
            columns |= {f"{RECALL}/{k}/{direction}": share for k, share in by_chance.items()}
            others = {k: np.where(known, share, np.nan) for k, share in by_chance.items()}
        else:
            scores_QC = scores_NN if direction == DIRECTIONS[0] else scores_NN.T
            own_Q = ranks(scores_QC, np.arange(count))
            other_Q = np.where(known, ranks(scores_QC, np.maximum(partner_N, 0)), np.nan)
            columns[f"{RANK}/{direction}"] = own_Q
            columns |= {f"{RECALL}/{k}/{direction}": reached(own_Q, k) for k in cutoffs}
            others = {k: reached(other_Q, k) for k in cutoffs}
        columns |= {f"{OTHER}/{k}/{direction}": share for k, share in others.items()}
    return table[["sample_id", "subject_id", "study_id"]].reset_index(drop=True).assign(**columns)


def statistics(predictions: pd.DataFrame, settings: PairRetrievalSettings) -> Statistic:
    """Recall at each cutoff, the control's, and the median rank, in each direction."""
    values: dict[str, Floats] = {
        name: predictions[name].to_numpy("float64")
        for name in map(str, predictions.columns)
        if name.endswith(DIRECTIONS)
    }

    def metrics(counts: Floats) -> dict[str, Floats]:
        return {
            name: (weighted_median if name.startswith(RANK) else weighted_mean)(counts, each)
            for name, each in values.items()
        }

    return metrics


def make_result(
    studies: Studies,
    scores_NN: Floats | None,
    pixels: Pixels,
    settings: PairRetrievalSettings,
) -> Result:
    """What is written for the scores of all images with all texts."""
    predictions = predict(studies.table, scores_NN, settings.cutoffs)
    statistic = statistics(predictions, settings)
    named = statistic(np.ones((1, len(predictions))))
    sizes = {name: int(predictions[name].notna().sum()) for name in named}
    data = {
        **studies.cohort.data,
        "pictures": pixels.fingerprint,
        "samples": len(predictions),
        "dropped": studies.dropped,
    }
    protocol = {
        **settings.model_dump(mode="json", exclude={"device", "batch_size"}),
        "geometry": str(pixels.geometry),
        "candidates": "each text once, with the first study that has it",
        "ties": "mean rank of equal scores",
    }
    metrics = estimates(statistic, predictions, sizes, settings.intervals)
    first = f"{RECALL}/{settings.cutoffs[-1]}/{DIRECTIONS[0]}"
    log.info("%s %.3f of %d studies", first, metrics[first].value, len(predictions))
    return Result("pair_retrieval", data, protocol, metrics, predictions)


def score(options: Namespace, settings: PairRetrievalSettings) -> Result:
    model: Any = cxrflow.load(options.model, choose_device(settings.device))
    pixels = open_pixels(options.pixels, model.geometry)
    studies = distinct(read_studies(options.cohort, pixels, settings.sections, settings.split))
    by_kind = encode_studies(model, pixels, studies.table, settings.batch_size)
    images = EncodedImages(by_kind["projected"], by_kind.get("patches"))
    texts = encode_texts(model, studies.table["text"].tolist(), settings.batch_size)
    scores_NN = without_rounding(model.similarity.scores(images, texts).double().cpu().numpy())
    return make_result(studies, scores_NN, pixels, settings)


def score_reference(name: str, options: Namespace, settings: PairRetrievalSettings) -> Result:
    """What ``cxrflow.benchmarks.score_reference`` calls; ``nothing``: a random order."""
    from cxrflow.images.store import PixelStore

    pixels: Pixels = PixelStore(options.pixels)
    studies = distinct(read_studies(options.cohort, pixels, settings.sections, settings.split))
    return make_result(studies, None, pixels, settings)
