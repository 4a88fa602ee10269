"""Zero-shot classification: which classes has an image, judged by prompts alone?

BioViL sections 2.2 and 4.4, Tables 6, A.1 and A.2 (pneumonia on RSNA). The score of an image for a
class is the softmax, over presence and absence, of its similarity to the prompts of each (the
cosine, unless the model has learnt another one); of exclusive classes it is the softmax over the
classes' prompts of presence. The threshold is where F1 on the evaluated images is greatest
(Appendix A.3), so accuracy, sensitivity, specificity and F1 are optimistic, in the paper as here;
AUROC is not. RSNA's negatives are of two kinds, and the second is the hard one, so AUROC against
each is reported too.

Other pairs of prompts (``prompt_pairs``, Appendix A.1) give every metric again as
``<metric>/<pair>``, the paper's |ΔAUC| as ``delta/<pair>``, and over all pairs
``prompts_spread``: the greatest AUROC less the smallest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from cxrflow.benchmarks.classification.labelled_images import (
    LABELLED,
    LabelledImages,
    class_prompts,
    labelled_images,
    score_columns,
    with_columns,
)
from cxrflow.benchmarks.classification.pictures import draw_classes
from cxrflow.benchmarks.classification.scores import (
    class_metrics,
    class_names,
    columns_of,
    threshold_words,
)
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions, slug
from cxrflow.metrics.classification import auroc
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.multilabel import by_class
from cxrflow.metrics.rare_classes import Behind, Labels
from cxrflow.similarity.settings import PromptAverage
from cxrflow.similarity.similarity import EncodedImages

COLUMNS = LABELLED
THRESHOLD = "threshold"  # columns of what was chosen on another part
DEFAULT = "default"  # the pair of prompts that ``compared_with`` calls so
SIDES = ("negative", "positive")  # prompts of absence and presence, as cosines are stacked
# RSNA's names of the two kinds of negatives, and what they are called in metrics.json.
NEGATIVES = {"Normal": "normal", "No Lung Opacity / Not Normal": "not_normal"}


def prompt_similarities(
    model: Any,
    images: EncodedImages,
    prompts: Sequence[tuple[list[str], list[str]]],
    average: PromptAverage,
) -> Floats:
    """Similarities [N, C, 2] of images to the prompts of each class's absence and presence."""
    columns = [
        model.similarity.prompt_scores(images, model.encode_texts(texts), average)
        for pair in prompts
        for texts in pair
    ]
    scores_NX = torch.stack(columns, dim=1).double().cpu().numpy()  # X: all C * 2 sets of prompts
    return np.asarray(scores_NX.reshape(len(scores_NX), -1, 2))


def class_scores(similarities_NC2: Floats, exclusive: bool, temperature: float) -> Floats:
    """Scores [N, C] of classes, from similarities to the prompts of absence and presence.

    A softmax of the similarities divided by the temperature (section 2.2).
    """
    if exclusive:
        return np.asarray(softmax(similarities_NC2[..., 1] / temperature, axis=1))
    return np.asarray(softmax(similarities_NC2 / temperature, axis=2)[..., 1])


def against_each_kind(predictions: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """Rows [N] of the positives and one kind of negatives, by the metric they give."""
    if class_names(predictions):
        return {}
    labels, kinds = predictions["label"].to_numpy(), predictions["subgroup"].to_numpy()
    return {
        f"auroc/{name}": (labels == 1) | (kinds == kind)
        for kind, name in NEGATIVES.items()
        if ((kinds == kind) & (labels == 0)).any()
    }


def statistic(
    predictions: pd.DataFrame, settings: ZeroShotClassificationSettings
) -> CountedStatistic:
    """The table's metrics, AUROC against each kind of negatives, and all of it by prompt pair."""
    names = class_names(predictions)
    labels_NC = columns_of(predictions, "label")
    last = f"/{names[-1]}" if names else ""
    # A table from elsewhere may know no other prompts.
    pairs = [p for p in settings.prompt_pairs if f"score/{p.name}{last}" in predictions]

    def measured(kind: str) -> CountedStatistic:
        thresholds = None
        if settings.threshold_part is not None:
            thresholds = columns_of(predictions, kind.replace("score", THRESHOLD))[0]
        scores_NC = columns_of(predictions, kind)
        return class_metrics(labels_NC, scores_NC, names, settings, thresholds)

    by_pair = {
        pair: measured(column)
        for pair, column in {
            DEFAULT: "score",
            **{pair.name: f"score/{pair.name}" for pair in pairs},
        }.items()
    }
    against = against_each_kind(predictions)
    default = by_pair[DEFAULT]
    observed = default(np.ones((1, len(predictions))))
    rarity = {}
    if settings.rare is not None:
        scored = [name for name in names if np.isfinite(observed[f"auroc/{name}"][0])]
        rarity = rarity_weights(scored, [slug(name) for name in settings.rare])

    def metrics(counts: Floats) -> dict[str, Floats]:
        scores: dict[str, Floats] = {}
        areas: dict[str, Floats] = {}
        for pair, of_pair in by_pair.items():
            values = of_pair(counts)
            areas[pair] = values["auroc"]
            if pair == DEFAULT:
                scores |= values
            else:  # of several classes their mean alone
                scores |= {f"{name}/{pair}": v for name, v in values.items() if "/" not in name}
        for name, weights in rarity.items():
            terms = [
                weight * np.where(np.isfinite(scores[area]), scores[area], observed[area])
                for area, weight in weights.items()
            ]
            scores[name] = np.sum(terms, axis=0) if terms else np.full(len(counts), np.nan)
        for name, rows in against.items():
            scores_N = predictions["score"].to_numpy()[rows]
            scores[name] = auroc(labels_NC[rows, 0], scores_N, counts[:, rows])
        for prompts in pairs:
            if prompts.compared_with in areas:
                gap = areas[prompts.name] - areas[prompts.compared_with]
                scores[f"delta/{prompts.name}"] = np.abs(gap)
        if pairs:
            scores["prompts_spread"] = np.ptp(np.stack(list(areas.values())), axis=0)
        return scores

    def size(name: str) -> int:
        return int(against[name].sum()) if name in against else default.size(name)

    labels = default.labels or Labels({}, lambda name: None)
    kinds = {name: np.where(rows, labels_NC[:, 0], np.nan) for name, rows in against.items()}

    def behind(metric: str) -> Behind | None:
        kind, _, last = metric.partition("/")
        if metric in against:
            return Behind((metric,), True)
        if metric in rarity:
            weights = rarity[metric]
            return Behind(tuple(area.partition("/")[2] for area in weights), True, weights)
        if last in {"", *names} and kind != "prompts_spread":
            return labels.behind(metric)
        # Of another pair of prompts, or of the difference of two; without values of each class.
        of_all = labels.behind("auroc" if kind in ("delta", "prompts_spread") else kind)
        return of_all and Behind(of_all.classes, kind == "auroc" and not names)

    all_labels = Labels({**labels.classes, **kinds}, behind)
    return CountedStatistic(metrics, size, all_labels, default.behind)


def rarity_weights(names: Sequence[str], rare: Sequence[str]) -> dict[str, dict[str, float]]:
    """Weights of the AUROCs of ``names`` in the means over rare and other ones, and in the
    first less the second; of no class in a mean, and then in their difference."""
    kinds = {"rare": [n for n in names if n in rare], "common": [n for n in names if n not in rare]}
    means = {k: {f"auroc/{n}": 1 / len(of_kind) for n in of_kind} for k, of_kind in kinds.items()}
    less = {name: -weight for name, weight in means["common"].items()}
    difference = {**means["rare"], **less} if all(kinds.values()) else {}
    return {**{f"auroc_{k}": m for k, m in means.items()}, "rare_less_common": difference}


def scores(
    inputs: ModelInputs, images: LabelledImages, settings: ZeroShotClassificationSettings
) -> dict[str, Floats]:
    """Scores [N, C] of each kind that a model gives images for the prompts of each class."""
    model = inputs.model
    encoded = inputs.features.images(images.table, model.similarity)

    def by_prompts(positive: Any = None, negative: Any = None) -> tuple[Floats, Floats]:
        prompts = class_prompts(images.classes, settings, positive, negative)
        similarities = prompt_similarities(model, encoded, prompts, settings.prompt_average)
        return class_scores(similarities, settings.exclusive, settings.temperature), similarities

    scores_NC, similarities_NC2 = by_prompts()
    by_kind = {"score": scores_NC}
    by_kind |= {f"cosine_{side}": similarities_NC2[..., i] for i, side in enumerate(SIDES)}
    for pair in settings.prompt_pairs:
        by_kind[f"score/{pair.name}"], _ = by_prompts(pair.positive, pair.negative)
    return by_kind


def predict(inputs: ModelInputs, settings: ZeroShotClassificationSettings) -> Predictions:
    """Score the labelled images for the prompts of each class."""
    features = inputs.features

    def scored(split: str | None) -> tuple[LabelledImages, dict[str, Floats]]:
        images = labelled_images(inputs.rows(split), inputs.cohort, features, settings)
        by_kind = inputs.ask(scores, images, settings)
        return images, {kind: images.of_samples(x) for kind, x in by_kind.items()}

    images, by_kind = scored(settings.split)
    predictions = with_columns(images.samples(), score_columns(by_kind, images.classes))
    data: dict[str, Any] = {"dropped": images.dropped}
    if settings.threshold_part is not None:
        chosen, values = scored(settings.threshold_part)
        thresholds = {
            kind.replace("score", THRESHOLD): best_thresholds(chosen, values[kind], settings)
            for kind in by_kind
            if kind.startswith("score")
        }
        columns = score_columns({k: v[None] for k, v in thresholds.items()}, images.classes)
        predictions = with_columns(predictions, {k: float(v[0]) for k, v in columns.items()})
        data["thresholds"] = {
            "samples": len(chosen.samples()),
            "classes_without": int(np.isnan(thresholds[THRESHOLD]).sum()),
        }
        data["dropped"] = [*images.dropped, *chosen.dropped]
    prompts = "the prompts of all classes" if settings.exclusive else "the two class prompts"
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pictures": features.pixels,
            "classes": list(images.classes),
            **images.counts(),
            **data,
        },
        {
            "geometry": features.geometry,
            "score": f"softmax over the similarities with {prompts}",
            "threshold_rule": threshold_words(settings),
        },
        draw=lambda metrics: [draw_classes(predictions, metrics, settings)],
    )


def best_thresholds(
    images: LabelledImages, scores_SC: Floats, settings: ZeroShotClassificationSettings
) -> Floats:
    """The best threshold [C] of each class on these samples; NaN of a class without both labels."""
    labels_SC = columns_of(images.samples(), "label")
    metrics = by_class(labels_SC, scores_SC, settings.threshold, ["auroc", "threshold"])
    best = metrics(np.ones((1, len(scores_SC))))
    return np.where(np.isfinite(best["auroc"]), best["threshold"], np.nan)[0]
