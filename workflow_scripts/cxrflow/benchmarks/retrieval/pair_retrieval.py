"""Image-text retrieval: does an image find its own report among all, and a report its image?

For data without boxes and labels; not of the papers, but the protocol that is common: recall at k,
the share of queries whose own counterpart is among the first k by the model's similarity, and the
median rank of the counterpart, in both directions. Intervals are over queries, those of one patient
drawn together, with the candidates as they are.

Reports often agree word for word ("No acute cardiopulmonary process."). By ``equal_texts: once``
each text stands once, with the first study that has it. By ``tied`` every study asks: an image for
its text among the different texts, a text for its image among the images of other texts.

``other_study/recall/<k>``: the share that has another patient's counterpart among the first k;
what stands above it is owed to the pair.

Shapes: N studies, C candidates.
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
RECALL, RANK = "recall", "median_rank"
BLOCK = 256  # queries whose scores are looked at together


def plain(texts: pd.Series) -> pd.Series:
    """Return the texts without what makes no other text: case and blanks."""
    return texts.str.lower().str.split().str.join(" ")


def distinct(studies: Studies) -> Studies:
    """Return the first study of each text."""
    repeated = plain(studies.table["text"]).duplicated()
    table, dropped = drop_rows(studies.table, {"another study has the same text": repeated})
    return Studies(table, [*studies.dropped, *dropped])


def score_studies(
    table: pd.DataFrame, scores_NN: Floats | None, cutoffs: list[int]
) -> pd.DataFrame:
    """Return each study's ranks and what they reach, by scores [image, text]; None: any order."""
    partner_N = exchange(table["subject_id"].fillna(table["study_id"]))
    has_partner = partner_N >= 0
    text_N, texts = pd.factorize(plain(table["text"]))
    first_C = np.unique(text_N, return_index=True)[1]  # the study of each different text
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, len(table), BLOCK)]
    columns: dict[str, Any] = {}
    for direction in DIRECTIONS:
        to_text = direction == DIRECTIONS[0]
        of_candidate_C = np.arange(len(texts)) if to_text else text_N
        place_N = text_N if to_text else np.arange(len(table))  # of a study among the candidates

        def candidates(rows: slice, to_text: bool = to_text) -> Floats:
            assert scores_NN is not None
            return scores_NN[rows][:, first_C] if to_text else scores_NN.T[rows]

        for prefix, target_N in (("", np.arange(len(table))), ("other_study/", partner_N)):
            place_of_target_N, text_of_target_N = place_N[target_N], text_N[target_N]
            rivals_N = len(of_candidate_C) - np.bincount(of_candidate_C)[text_of_target_N]
            rank_N = 1 + rivals_N / 2  # the mean over all orders
            if scores_NN is not None:
                rank_N = np.concatenate(
                    [
                        ranks(
                            candidates(rows),
                            place_of_target_N[rows],
                            of_candidate_C != text_of_target_N[rows, None],
                        )
                        for rows in blocks
                    ]
                )
            if not prefix:
                columns[f"{RANK}/{direction}"] = rank_N
                columns[f"candidates/{direction}"] = 1 + rivals_N
            for k in cutoffs:
                reached_N = rank_N <= k if scores_NN is not None else k / (1 + rivals_N)
                values_N = np.minimum(1.0, reached_N)
                if prefix:
                    values_N = np.where(has_partner, values_N, np.nan)
                columns[f"{prefix}{RECALL}/{k}/{direction}"] = values_N
    return table[["sample_id", "subject_id", "study_id"]].reset_index(drop=True).assign(**columns)


def statistic(predictions: pd.DataFrame, settings: PairRetrievalSettings) -> CountedStatistic:
    """Recall at each cutoff, the control's, and the median rank, in each direction."""
    columns = {
        name: predictions[name].to_numpy("float64")
        for name in map(str, predictions.columns)
        if name.endswith(DIRECTIONS) and not name.startswith("candidates")
    }

    def metrics(counts: Floats) -> dict[str, Floats]:
        return {
            name: (weighted_median if name.startswith(RANK) else weighted_mean)(counts, values)
            for name, values in columns.items()
        }

    def behind(name: str) -> dict[str, int]:
        return {"candidates": int(predictions[f"candidates/{name.rpartition('/')[2]}"].min())}

    return CountedStatistic(
        metrics, lambda name: int(np.isfinite(columns[name]).sum()), behind=behind
    )


def scores(inputs: ModelInputs, studies: Studies, settings: PairRetrievalSettings) -> Floats:
    """Scores [image, text] of all studies by the model's similarity."""
    model = inputs.model
    by_kind = encode_studies(model, inputs.pixels, studies.table, settings.batch_size)
    images = EncodedImages(by_kind["projected"], by_kind.get("patches"))
    texts = encode_texts(model, studies.table["text"].tolist(), settings.batch_size)
    return np.asarray(model.similarity.scores(images, texts).double().cpu().numpy())


def predict(inputs: ModelInputs, settings: PairRetrievalSettings) -> Predictions:
    """Rank all texts for each image and all images for each text."""
    inputs.load()
    studies = usable_studies(inputs.rows(settings.split), inputs.pixels, settings.sections)
    once = settings.equal_texts == "once"
    if once:
        studies = distinct(studies)
    scores_NN = None
    if not inputs.knows_nothing:
        scores_NN = without_rounding(inputs.ask(scores, studies, settings))
    table = score_studies(studies.table, scores_NN, settings.cutoffs)
    return Predictions(
        table,
        statistic(table, settings),
        {
            "pictures": inputs.pixels.fingerprint,
            "samples": len(table),
            "texts": int(plain(studies.table["text"]).nunique()),
            "dropped": studies.dropped,
        },
        {
            "geometry": str(inputs.pixels.geometry),
            "candidates": "each text once, with the first study that has it"
            if once
            else "the different texts; images of other texts",
            "ties": "mean rank of equal scores",
        },
    )
