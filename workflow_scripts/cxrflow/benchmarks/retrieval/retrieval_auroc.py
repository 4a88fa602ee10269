"""Retrieval as the low-data study measures it: AUROC of the similarities of all pairs.

Windsor et al. 2023, section 3: "the similarity between each image and report in the test split",
true and false positive rates "at a range of similarity thresholds". So one threshold serves all
pairs. A report that another study has word for word is a negative for that study.

``auroc/global`` is of the cosine of both projections. ``auroc/local`` is of the matching of words
and patches (Z of Eq. 4, objectives/local_alignment.py), for models that have it. Z is a sum over
words, so a longer text is more similar to every image. ``auroc/local_mean`` takes the mean over
words (ours).

``query_auroc`` and ``recall`` (ours) are of single queries in both directions; studies of equal
texts are left out. ``other_study/auroc`` is a control: each image with another patient's text.

Shapes: N studies, B of a block.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.generation.report_retrieval import encode_different
from cxrflow.benchmarks.inputs import Pixels, drop_rows, image_batches
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions, means
from cxrflow.benchmarks.retrieval.pair_retrieval import DIRECTIONS, plain
from cxrflow.benchmarks.retrieval.score_file import ScoreFile
from cxrflow.benchmarks.retrieval.settings import RetrievalAurocSettings
from cxrflow.benchmarks.study_images import STUDY, Studies, encode_studies, usable_studies
from cxrflow.encoders.word_aggregation import Words
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.pooled_auroc import BLOCK, Scores, search, shares
from cxrflow.similarity.local import Local
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts

COLUMNS = STUDY

MATCHINGS = GLOBAL, LOCAL, LOCAL_MEAN = "global", "local", "local_mean"
CONTROL = "other_study/"
_SMALLEST = np.finfo(np.float64).tiny
_ROUNDED = 1e9, 1e5  # cosines of float64, and sums of float32: equal pairs must have equal scores


class Matching(NamedTuple):
    """How all images are compared with all texts, a block of rows at a time."""

    of_images: Scores  # [B, N] of images with all texts
    of_texts: Scores  # [B, N] of texts with all images
    positives: Callable[[np.ndarray], Floats]  # [N] of each image with the text of this number


def by_vectors(image_NP: Floats, text_NP: Floats) -> Matching:
    """Matching by the cosine of vectors; 0 with one of length 0."""
    image_NP, text_NP = (
        vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _SMALLEST)
        for vectors in (image_NP, text_NP)
    )
    return Matching(
        lambda rows: _rounded(image_NP[rows] @ text_NP.T, _ROUNDED[0]),
        lambda rows: _rounded(text_NP[rows] @ image_NP.T, _ROUNDED[0]),
        lambda place_N: _rounded((image_NP * text_NP[place_N]).sum(axis=1), _ROUNDED[0]),
    )


def by_distance(image_N: Floats, text_N: Floats) -> Matching:
    """Matching by the distance of two numbers: a smaller distance is a better match."""

    def block(queries: Floats, candidates: Floats) -> Floats:
        return _rounded(-np.abs(queries - candidates), _ROUNDED[0])

    return Matching(
        lambda rows: block(image_N[rows, None], text_N),
        lambda rows: block(text_N[rows, None], image_N),
        lambda place_N: block(image_N, text_N[place_N]),
    )


def _rounded(scores: Floats, scale: float) -> Floats:
    """The scores as whole multiples of 1 / ``scale``."""
    np.multiply(scores, scale, out=scores)
    return np.rint(scores, out=scores)


def score_studies(
    table: pd.DataFrame, matchings: Mapping[str, Matching], cutoffs: list[int]
) -> pd.DataFrame:
    """Return a row a study: its shares in the areas, its AUROC and hits as a query."""
    number_N = np.arange(len(table))
    texts_N = pd.factorize(plain(table["text"]))[0]
    partner_N = exchange(table["subject_id"].fillna(table["study_id"]))
    has_partner = bool((partner_N >= 0).all())  # otherwise one patient has more than half of them
    columns: dict[str, Any] = {}
    for name, matching in matchings.items():
        places = [number_N, *([partner_N] if has_partner else [])]
        positives_XN = np.stack([matching.positives(place_N) for place_N in places])
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
    return means({name: (predictions[name], everyone) for name in names})


def predict(inputs: ModelInputs, settings: RetrievalAurocSettings) -> Predictions:
    """Compare all images with all texts as the model does."""
    model = inputs.model

    def matchings(studies: Studies) -> dict[str, Matching]:
        texts = studies.table["text"].tolist()
        batches, places = encode_different(model, texts, settings.batch_size)
        text_NP = torch.cat([batch.projection for batch in batches])[places].double().cpu().numpy()
        if not isinstance(model.similarity, Local):
            by_kind = encode_studies(model, inputs.pixels, studies.table, settings.batch_size)
            return {GLOBAL: by_vectors(by_kind["projected"].double().numpy(), text_NP)}
        of_studies = (inputs.pixels, studies.table, batches, np.array(places))
        image_NP, local = compare_locally(model, *of_studies, settings.batch_size)
        return {GLOBAL: by_vectors(image_NP, text_NP)} | local

    return compared(inputs, settings, matchings)


@torch.inference_mode()
def compare_locally(
    model: Any,
    pixels: Pixels,
    table: pd.DataFrame,
    batches: Sequence[EncodedTexts],
    place_N: NDArray[np.int64],
    batch_size: int,
) -> tuple[Floats, dict[str, Matching]]:
    """The projected images [N, P], and their matching with words, by the sum and by the mean.

    Images are compared as they are encoded, with each different text once: patches of all images
    and scores of all pairs are never in memory.
    """
    similarity, scores = model.similarity, ScoreFile(len(table))
    lengths = [length for batch in batches for length in words_of(batch).lengths]
    log_words_T = np.log(np.asarray(lengths, dtype=np.float32))
    projected: list[Tensor] = []
    rows: list[NDArray[np.float32]] = []  # of images whose block is not full
    for _, frames in image_batches(pixels, table, batch_size, model.takes_prior):
        images = EncodedImages.of(model.encode_image(frames))
        projected.append(images.embedding.cpu())
        parts = [similarity.scores(images, batch).cpu().numpy() for batch in batches]
        mean_BT = np.concatenate(parts, axis=1)
        if similarity.config.aggregation == "sum":
            mean_BT -= log_words_T
        rows.extend(mean_BT)
        while len(rows) >= BLOCK:
            scores.append(np.stack(rows[:BLOCK])[:, place_N])
            del rows[:BLOCK]
    if rows:
        scores.append(np.stack(rows)[:, place_N])
    image_NP = torch.cat(projected).double().numpy()
    log_words_N = _rounded(log_words_T[place_N].astype(np.float64), _ROUNDED[1])

    def matching(more_N: Floats) -> Matching:
        """The mean over words, and what is added to it for each text."""
        return Matching(
            lambda rows: _score(scores.of_images(rows)) + more_N,
            lambda rows: _score(scores.of_texts(rows)) + more_N[rows, None],
            lambda number_N: _score(scores.pairs(number_N)) + more_N[number_N],
        )

    return image_NP, {LOCAL: matching(log_words_N), LOCAL_MEAN: matching(0 * log_words_N)}


def words_of(texts: EncodedTexts) -> Words:
    """The words of texts, which a model with local matching reads."""
    assert texts.words is not None
    return texts.words


def _score(scores: NDArray[np.float32]) -> Floats:
    """Computed scores, which keep their precision."""
    return _rounded(scores.astype(np.float64), _ROUNDED[1])


def compared(
    inputs: ModelInputs,
    settings: RetrievalAurocSettings,
    matchings: Callable[[Studies], Mapping[str, Matching]],
) -> Predictions:
    """Compare images and texts of the usable studies by these matchings."""
    studies = usable_studies(inputs.rows(settings.split), inputs.pixels, settings.sections)
    if not inputs.is_reference:
        encoded = inputs.model.tokenizer.encode_batch_fast(studies.table["text"].tolist())
        wordless = [all(text.special_tokens_mask) for text in encoded]
        table, dropped = drop_rows(studies.table, {"text has no word": wordless})
        studies = Studies(table, [*studies.dropped, *dropped])
    if len(studies.table) < 2:
        raise InputError(
            f"{inputs.source}: 1 study with image and text; expected 2 or more to compare"
        )
    table = score_studies(studies.table, matchings(studies), settings.cutoffs)
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
