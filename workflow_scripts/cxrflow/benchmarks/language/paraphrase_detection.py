"""Paraphrase or contradiction, classified by the cosine of two sentences' embeddings.

BioViL-T section 4.4, Appendix F.6, Table 6. Nothing is trained. The sentences of MS-CXR-T differ in
what became of a finding; RadNLI's entailments and contradictions differ in any content, and its
neutral pairs are left out. ROC-AUC needs no threshold. The threshold of the accuracy is tuned in
ten folds: on nine of them in steps of 0.005, for the pairs of the tenth. So each pair is judged
once, as published accuracies are whole numbers of pairs (118 of 145). Of several best thresholds
the middle one counts. Both directions of a pair are in one fold.

Unlike :mod:`sentence_similarity` (BioViL's Table 4) it compares states of the text encoder, not
projected ones, and classifies.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.language.sentence_pair_rows import PAIR_COLUMNS, pair_numbers
from cxrflow.benchmarks.language.sentence_similarity import pair_cosines
from cxrflow.benchmarks.language.settings import ParaphraseDetectionSettings
from cxrflow.benchmarks.result import CountedStatistic, Predictions, by_class, slug
from cxrflow.metrics.classification import auroc
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.metrics.rare_classes import areas_of

if TYPE_CHECKING:  # a reference row needs neither
    from torch import Tensor

    from cxrflow.benchmarks.model_inputs import ModelInputs

COLUMNS = PAIR_COLUMNS
SIMILAR = ("paraphrase", "entailment")
OPPOSED = "contradiction"


def embedding_of(model: Any, settings: ParaphraseDetectionSettings) -> str:
    """Return the kind of embedding; ``auto`` depends on how the model was trained (F.6)."""
    if settings.embedding != "auto":
        return settings.embedding
    program = model.run.get("program")
    terms = (model.run.get("settings") or {}).get("terms") or {}
    with_images = program not in (None, "text", "image")
    return "cls" if with_images or "section_matching" in terms else "mean"


def embed(model: Any, kind: str, texts: list[str]) -> "Tensor":
    """Return embeddings [B, D] of texts, L2-normalised."""
    from torch.nn.functional import normalize

    if kind == "projected":
        return normalize(model.encode_text(texts).cpu().double(), dim=1)
    states_BLD, mask_BL = model.text_states(texts)
    states_BLD, mask_BL1 = states_BLD.cpu().double(), mask_BL.cpu().double()[:, :, None]
    mean_BD = (states_BLD * mask_BL1).sum(1) / mask_BL1.sum(1)
    return normalize(states_BLD[:, 0] if kind == "cls" else mean_BD, dim=1)


def best_threshold(cosines: Floats, similar: NDArray[np.bool_], step: float) -> float:
    """Return the threshold in [-1, 1] with the highest accuracy of "similar above it"."""
    # Whole multiples of the step, so that 0 and the ends are among them.
    thresholds = np.arange(-round(1 / step), round(1 / step) + 1) * step
    correct = ((cosines > thresholds[:, None]) == similar).sum(axis=1)
    best = np.flatnonzero(correct == correct.max())
    return float(thresholds[best[len(best) // 2]])


def out_of_fold(
    cosines: Floats,
    similar: NDArray[np.bool_],
    pairs: NDArray[np.int64],
    settings: ParaphraseDetectionSettings,
) -> tuple[NDArray[np.int64], Floats]:
    """Return each row's fold [N] and the threshold [N] tuned on the remaining folds."""
    from sklearn.model_selection import StratifiedGroupKFold

    folds = StratifiedGroupKFold(settings.folds, shuffle=True, random_state=settings.fold_seed)
    fold = np.full(len(cosines), -1, dtype=np.int64)
    threshold = np.full(len(cosines), np.nan)
    for number, (tuned, judged) in enumerate(folds.split(cosines[:, None], similar, pairs)):
        fold[judged] = number
        threshold[judged] = best_threshold(cosines[tuned], similar[tuned], settings.step)
    return fold, threshold


def statistic(predictions: pd.DataFrame, settings: ParaphraseDetectionSettings) -> CountedStatistic:
    """Accuracy and ROC-AUC of all pairs and of each subset, and the majority class's share."""
    cosine = predictions["cosine"].to_numpy()
    similar = predictions["label"].isin(SIMILAR).to_numpy()
    correct = ((cosine > predictions["threshold"].to_numpy()) == similar).astype(float)
    rows_by_subset = {name: rows.to_numpy() for name, rows in _subsets(predictions).items()}

    def metrics(counts: Floats) -> dict[str, Floats]:
        share = weighted_mean(counts, similar.astype(float))
        scores = {"majority": np.maximum(share, 1 - share)}
        for name, rows in rows_by_subset.items():
            scores[f"accuracy{name}"] = weighted_mean(counts, correct, rows)
            scores[f"auroc{name}"] = auroc(similar[rows].astype(int), cosine[rows], counts[:, rows])
        return scores

    def size(name: str) -> int:
        _, slash, subset = name.partition("/")
        return int(rows_by_subset[slash + subset].sum())

    labels = {
        name: np.where(rows, similar.astype(float), np.nan) for name, rows in rows_by_subset.items()
    }

    def behind(name: str) -> dict[str, int]:
        _, slash, subset = name.partition("/")
        return by_class(predictions["label"], rows_by_subset[slash + subset])

    return CountedStatistic(metrics, size, areas_of(labels), behind)


def _subsets(predictions: pd.DataFrame) -> dict[str, pd.Series]:
    """Masks of the rows of all pairs and of each subset with both classes, by metric suffix."""
    subsets = {"": pd.Series(True, index=predictions.index)}
    if "subset" in predictions:
        for name, rows in predictions.groupby("subset"):
            if rows["label"].nunique() > 1:
                subsets[f"/{slug(str(name))}"] = predictions["subset"] == name
    return subsets


def scores(
    inputs: "ModelInputs", samples: pd.DataFrame, settings: ParaphraseDetectionSettings
) -> Floats:
    """The cosines [N] of a model."""
    model = inputs.model
    encode = partial(embed, model, embedding_of(model, settings))
    return pair_cosines(samples, encode, settings.batch_size)


def predict(inputs: "ModelInputs", settings: ParaphraseDetectionSettings) -> Predictions:
    """Classify the pairs of the cohort that are similar or opposed by their similarities."""
    protocol: dict[str, Any] = {}
    if inputs.row is None:
        if inputs.model.text_encoder is None:
            raise InputError("the model has no text encoder")
        protocol = {"embedding": embedding_of(inputs.model, settings)}
    table = inputs.rows(settings.split)
    samples, dropped = drop_rows(
        table, {"neither similar nor opposed": ~table["label"].isin([*SIMILAR, OPPOSED])}
    )
    similar = samples["label"].isin(SIMILAR).to_numpy()
    pairs = pair_numbers(samples)
    for kind, rows in ((" or ".join(SIMILAR), similar), (OPPOSED, ~similar)):
        if len(np.unique(pairs[rows])) < settings.folds:
            raise InputError(
                f"samples.parquet: {len(np.unique(pairs[rows]))} pairs of sentences with the label "
                f"{kind}; expected at least one for each of the {settings.folds} folds"
            )
    cosines = inputs.ask(scores, samples, settings)
    fold, threshold = out_of_fold(cosines, similar, pairs, settings)
    columns = ["sample_id", "label", *(["subset"] if "subset" in samples else [])]
    predictions = samples[columns].assign(
        pair=pairs, cosine=cosines, fold=fold, threshold=threshold
    )
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pairs": samples["label"].value_counts().sort_index().to_dict(),
            "dropped": dropped,
        },
        {**protocol, "interval_unit": "two sentences, in both directions"},
    )
