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

import logging
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import cxrflow
from cxrflow.benchmarks.classification.labelled_images import (
    COLUMNS,
    class_columns,
    class_prompts,
    labelled_images,
)
from cxrflow.benchmarks.classification.scores import (
    class_metrics,
    class_names,
    columns_of,
    sizes,
    threshold_words,
)
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.features import Features, read_features
from cxrflow.benchmarks.inputs import Cohort, read_cohort
from cxrflow.benchmarks.result import Figure, Result, estimates, png_of
from cxrflow.metrics.classification import auroc, operating_points, roc_curve
from cxrflow.metrics.intervals import Estimate, Floats, Statistic
from cxrflow.similarity.settings import PromptAverage
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

# RSNA's names of the two kinds of negatives, and what they are called in metrics.json.
NEGATIVES = {"Normal": "normal", "No Lung Opacity / Not Normal": "not_normal"}


def class_probabilities(similarities: Floats, temperature: float) -> Floats:
    """Softmax [N, C] over the cosines [N, C] divided by the temperature (section 2.2)."""
    scaled = similarities / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


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
    """Scores [N, C] of classes, from similarities to the prompts of absence and presence."""
    if exclusive:
        return class_probabilities(similarities_NC2[..., 1], temperature)
    classes = range(similarities_NC2.shape[1])
    return np.stack(
        [class_probabilities(similarities_NC2[:, c], temperature)[:, 1] for c in classes], axis=1
    )


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


def statistics(predictions: pd.DataFrame, settings: ZeroShotClassificationSettings) -> Statistic:
    """The table's metrics, AUROC against each kind of negatives, and all of it by prompt pair."""
    names = class_names(predictions)
    labels_NC = columns_of(predictions, "label")
    main = class_metrics(labels_NC, columns_of(predictions, "score"), names, settings)
    by_pair = {
        pair.name: class_metrics(
            labels_NC, columns_of(predictions, f"score/{pair.name}"), names, settings
        )
        for pair in settings.prompt_pairs
    }
    against = against_each_kind(predictions)

    def metrics(counts: Floats) -> dict[str, Floats]:
        found = dict(main(counts))
        for name, used in against.items():
            scores_N = predictions["score"].to_numpy()[used]
            found[name] = auroc(labels_NC[used, 0], scores_N, counts[:, used])
        areas = {"default": found["auroc"]}
        for pair_name, statistic in by_pair.items():
            # Of several classes their mean alone.
            other = {name: value for name, value in statistic(counts).items() if "/" not in name}
            areas[pair_name] = other["auroc"]
            found |= {f"{name}/{pair_name}": values for name, values in other.items()}
        for pair in settings.prompt_pairs:
            if pair.compared_with is not None:
                gap = areas[pair.name] - areas[pair.compared_with]
                found[f"delta/{pair.name}"] = np.abs(gap)
        if settings.prompt_pairs:
            found["prompts_spread"] = np.ptp(np.stack(list(areas.values())), axis=0)
        return found

    return metrics


def summarise(
    predictions: pd.DataFrame, settings: ZeroShotClassificationSettings
) -> dict[str, Estimate]:
    metrics = statistics(predictions, settings)
    named = metrics(np.ones((1, len(predictions))))
    behind = sizes(list(named), columns_of(predictions, "label"), class_names(predictions))
    behind |= {name: int(used.sum()) for name, used in against_each_kind(predictions).items()}
    return estimates(metrics, predictions, behind, settings.intervals)


def draw_roc(predictions: pd.DataFrame, metrics: dict[str, Estimate]) -> Figure:
    """The ROC curves, with the operating point of the table where there is one class."""
    from matplotlib.figure import Figure as Canvas

    area = metrics["auroc"]
    canvas = Canvas(figsize=(4, 4), dpi=100, layout="constrained")
    axes = canvas.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1, label="chance")
    names = class_names(predictions)
    labels_NC, scores_NC = (columns_of(predictions, kind) for kind in ("label", "score"))
    for number, name in enumerate(names or [""]):
        known = np.isfinite(labels_NC[:, number])
        if not known.any():
            continue
        points = operating_points(labels_NC[known, number], scores_NC[known, number])
        value = metrics[f"auroc/{name}"].value if name else area.value
        color = None if name else "#1b5e8c"
        label = f"{name or 'AUROC'} {value:.3f}".replace("_", " ")
        axes.plot(*roc_curve(points), color=color, label=label)
    caption = f"{area.n} images; AUROC {area.value:.3f} ({area.low:.3f} to {area.high:.3f})."
    if not names and {"specificity", "sensitivity", "f1"} <= metrics.keys():
        axes.plot(
            1 - metrics["specificity"].value, metrics["sensitivity"].value, "o", color="#b3441f",
            label=f"best F1 {metrics['f1'].value:.3f}",
        )  # fmt: skip
        caption += " The dot is the threshold with the best F1."
    axes.set(xlabel="1 − specificity", ylabel="sensitivity", xlim=(0, 1), ylim=(0, 1.01))
    axes.set_aspect("equal")
    axes.legend(loc="lower right", frameon=False, fontsize="small" if names else None)
    return Figure("roc.png", png_of(canvas), "ROC curve of zero-shot classification", caption)


def evaluate(
    model: Any, cohort: Cohort, features: Features, settings: ZeroShotClassificationSettings
) -> Result:
    """Score ``model`` on the labelled images of ``cohort``."""
    images = labelled_images(cohort.table, cohort.classes, features, settings)
    encoded = features.images(images.table, model.similarity)

    def scores(positive: Any = None, negative: Any = None) -> tuple[Floats, Floats]:
        prompts = class_prompts(images.classes, settings, positive, negative)
        similarities = prompt_similarities(model, encoded, prompts, settings.prompt_average)
        return class_scores(similarities, settings.exclusive, settings.temperature), similarities

    scores_NC, cosines_NC2 = scores()
    by_column = dict(zip(class_columns("score", images.classes), scores_NC.T, strict=True))
    for side, kind in enumerate(("cosine_negative", "cosine_positive")):
        columns = class_columns(kind, images.classes)
        by_column |= dict(zip(columns, cosines_NC2[..., side].T, strict=True))
    for pair in settings.prompt_pairs:
        own_NC, _ = scores(pair.positive, pair.negative)
        columns = class_columns(f"score/{pair.name}", images.classes)
        by_column |= dict(zip(columns, own_NC.T, strict=True))
    names, values = list(by_column), np.stack(list(by_column.values()), axis=1)
    of_samples = dict(zip(names, images.of_samples(values).T, strict=True))
    predictions = images.samples().assign(**of_samples)
    metrics = summarise(predictions, settings)
    prompts = "the prompts of all classes" if settings.exclusive else "the two class prompts"
    protocol = {
        **settings.model_dump(mode="json", exclude={"device"}),
        "geometry": features.geometry,
        "score": f"softmax over the cosines with {prompts}",
        "threshold_rule": threshold_words(settings),
    }
    data = {
        **cohort.data,
        "pictures": features.pixels,
        "classes": list(images.classes),
        **images.counts(),
        "dropped": images.dropped,
    }
    figures = [draw_roc(predictions, metrics)]
    return Result("zero_shot_classification", data, protocol, metrics, predictions, figures)


def score(options: Namespace, settings: ZeroShotClassificationSettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    features = read_features(options.features, options.model)
    model = cxrflow.load(options.model, choose_device(settings.device))
    result = evaluate(model, cohort, features, settings)
    log.info("AUROC %.3f", result.metrics["auroc"].value)
    return result
