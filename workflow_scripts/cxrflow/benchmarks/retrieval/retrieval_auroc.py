"""Retrieval as the low-data study measures it: AUROC of the similarities of all pairs.

Windsor et al. 2023, section 3: "the similarity between each image and report in the test split",
true and false positive rates "at a range of similarity thresholds". So one threshold serves all
pairs. A report that another study has word for word is a negative for that study.

The model compares them (``Similarity.pairs``). ``auroc/global`` is of whole images with whole
texts: the cosine of both projections, or the similarity that the model keeps in its place.
``auroc/local`` is of the matching of words and patches (Z of Eq. 4, objectives/local_alignment.py),
for models that have it. Z is a sum over words, so a longer text is more similar to every image.
``auroc/local_mean`` takes the mean over words (ours).

``query_auroc`` and ``recall`` (ours) are of single queries in both directions; studies of equal
texts are left out. ``other_study/auroc`` is a control: each image with another patient's text.

Shapes: N studies, B of a block.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.generation.report_retrieval import encode_different
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means
from cxrflow.benchmarks.retrieval.pair_retrieval import DIRECTIONS, plain
from cxrflow.benchmarks.retrieval.settings import RetrievalAurocSettings
from cxrflow.benchmarks.study_images import STUDY, Studies, encoded_batches, usable_studies
from cxrflow.metrics.pooled_auroc import search, shares
from cxrflow.similarity.pairs import Pairs

COLUMNS = STUDY

GLOBAL, LOCAL, LOCAL_MEAN = "global", "local", "local_mean"
MATCHINGS = (GLOBAL, LOCAL, LOCAL_MEAN)
CONTROL = "other_study/"


def score_studies(
    table: pd.DataFrame, matchings: Mapping[str, Pairs], cutoffs: list[int]
) -> pd.DataFrame:
    """Return a row a study: its shares in the areas, its AUROC and hits as a query."""
    number_N = np.arange(len(table))
    texts_N = pd.factorize(plain(table["text"]))[0]
    partner_N = exchange(table["subject_id"].fillna(table["study_id"]))
    has_partner = bool((partner_N >= 0).all())  # otherwise one patient has more than half of them
    columns: dict[str, Any] = {}
    for name, matching in matchings.items():
        places = [number_N, *([partner_N] if has_partner else [])]
        positives_XN = np.stack([matching.chosen(place_N) for place_N in places])
        images, texts = (
            search(scores, positives_XN, texts_N)
            for scores in (matching.of_images, matching.of_texts)
        )
        areas = [f"auroc/{name}", f"{CONTROL}auroc/{name}"][: len(places)]
        columns |= dict(zip(areas, shares(images, texts), strict=True))
        for direction, queries in zip(DIRECTIONS, (images, texts), strict=True):
            columns[f"query_auroc/{direction}/{name}"] = queries.area_N
            columns |= {f"recall/{k}/{direction}/{name}": queries.recall(k) for k in cutoffs}
    return table[["sample_id", "subject_id", "study_id"]].reset_index(drop=True).assign(**columns)


def statistic(predictions: pd.DataFrame, settings: RetrievalAurocSettings) -> CountedStatistic:
    """The means over studies: AUROC over all pairs is one too (metrics/pooled_auroc.py)."""
    everyone = np.ones(len(predictions), dtype=bool)
    names = [name for name in map(str, predictions.columns) if name.rpartition("/")[2] in MATCHINGS]
    count = len(predictions)

    def behind(name: str) -> dict[str, int]:
        if "query_auroc" in name or "recall" in name:
            return {"candidates": count}
        patients = int(predictions["subject_id"].fillna(predictions["study_id"]).nunique())
        return {
            "positives": count,
            "negatives": count * (count - 1),
            "positive_patients": patients,
            "negative_patients": patients,
        }

    statistic = means({name: (predictions[name], everyone) for name in names})
    return replace(statistic, behind=behind)


def scores(
    inputs: ModelInputs, studies: Studies, settings: RetrievalAurocSettings
) -> dict[str, Pairs]:
    """All images with all texts as the model compares them."""
    model, batch_size = inputs.model, settings.batch_size
    texts, places = encode_different(model, studies.table["text"].tolist(), batch_size)
    images = encoded_batches(model, inputs.pixels, studies.table, batch_size)
    pairs: dict[str, Pairs] = model.similarity.pairs(images, texts, np.array(places))
    return pairs


def predict(inputs: ModelInputs, settings: RetrievalAurocSettings) -> Predictions:
    """Compare images and texts of the usable studies."""
    inputs.load()
    studies = usable_studies(inputs.rows(settings.split), inputs.pixels, settings.sections)
    if inputs.row is None:
        encoded = inputs.model.tokenizer.encode_batch_fast(studies.table["text"].tolist())
        wordless = [all(text.special_tokens_mask) for text in encoded]
        table, dropped = drop_rows(studies.table, {"text has no word": wordless})
        studies = Studies(table, [*studies.dropped, *dropped])
    if len(studies.table) < 2:
        raise InputError(
            f"{inputs.source}: 1 study with image and text; expected 2 or more to compare"
        )
    table = score_studies(studies.table, inputs.ask(scores, studies, settings), settings.cutoffs)
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
            "auroc": "over all pairs, one threshold, ties half; equal texts are negatives",
            "query_auroc, recall": "of each query; studies of equal texts are left out",
        },
    )
