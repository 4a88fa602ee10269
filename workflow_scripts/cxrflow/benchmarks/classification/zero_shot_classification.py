"""Zero-shot classification on RSNA: is there pneumonia, judged by two prompts alone?

BioViL sections 2.2 and 4.4, Tables 6, A.1 and A.2. The score of an image is the softmax, over the
two classes, of its cosine with each class prompt. The threshold is where F1 on the evaluated
images is greatest (Appendix A.3), so accuracy, sensitivity, specificity and F1 are optimistic, in
the paper as here; AUROC is not. RSNA's negatives are of two kinds, and the second is the hard one,
so AUROC against each is reported too.

Other pairs of prompts (``prompt_pairs``, Appendix A.1) give every metric again as
``<metric>/<pair>``, the paper's |ΔAUC| as ``delta/<pair>``, and over all pairs
``prompts_spread``: the greatest AUROC less the smallest.
"""

import io
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import cxrflow
from cxrflow.benchmarks.classification.labelled_images import (
    COLUMNS,
    SHOWN,
    class_embedding,
    class_embeddings,
    classification_parser,
    features_of,
    labelled_images,
)
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.features import Features, read_features
from cxrflow.benchmarks.inputs import Cohort, read_cohort
from cxrflow.benchmarks.result import Figure, Result, model_name
from cxrflow.command import read_settings, run
from cxrflow.metrics.classification import auroc, binary_metrics, operating_points, roc_curve
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, bootstrap, clusters_of
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

# RSNA's names of the two kinds of negatives, and what they are called in metrics.json.
NEGATIVE_CLASSES = {"Normal": "normal", "No Lung Opacity / Not Normal": "not_normal"}


def class_probabilities(
    similarities: NDArray[np.float64], temperature: float
) -> NDArray[np.float64]:
    """Softmax [N, C] over the cosines [N, C] divided by the temperature (section 2.2)."""
    scaled = similarities / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def against_each_kind(predictions: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    """Rows [N] of the positives and one kind of negatives, by the metric they give."""
    labels, kinds = predictions["label"].to_numpy(), predictions["class"].to_numpy()
    return {
        f"auroc/{name}": (labels == 1) | (kinds == kind)
        for kind, name in NEGATIVE_CLASSES.items()
        if ((kinds == kind) & (labels == 0)).any()
    }


def statistics(predictions: pd.DataFrame, settings: ZeroShotClassificationSettings) -> Statistic:
    """The table's metrics, AUROC against each kind of negatives, and all of it by prompt pair."""
    labels = predictions["label"].to_numpy()
    scores = predictions["score"].to_numpy()
    against = against_each_kind(predictions)
    by_pair = {
        pair.name: predictions[f"score/{pair.name}"].to_numpy() for pair in settings.prompt_pairs
    }

    def metrics(counts: Floats) -> dict[str, Floats]:
        found = binary_metrics(labels, scores, counts)
        for name, used in against.items():
            found[name] = auroc(labels[used], scores[used], counts[:, used])
        areas = {"default": found["auroc"]}
        for pair_name, own in by_pair.items():
            other = binary_metrics(labels, own, counts)
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
    """The metrics of :func:`statistics` with their intervals."""
    labels = predictions["label"].to_numpy()
    metrics = statistics(predictions, settings)
    behind = {"sensitivity": int((labels == 1).sum()), "specificity": int((labels == 0).sum())}
    sizes = {
        name: behind.get(name.partition("/")[0], len(labels))
        for name in metrics(np.ones((1, len(labels))))
    }
    sizes |= {name: int(used.sum()) for name, used in against_each_kind(predictions).items()}
    chosen = settings.intervals
    clusters = clusters_of(predictions["subject_id"], chosen.unit)
    return bootstrap(metrics, clusters, sizes, **chosen.resampling())


def draw_roc(predictions: pd.DataFrame, metrics: dict[str, Estimate]) -> Figure:
    """The ROC curve with the operating point of the table."""
    from matplotlib.figure import Figure as Canvas

    points = operating_points(predictions["label"], predictions["score"])
    false_rate, true_rate = roc_curve(points)
    canvas = Canvas(figsize=(4, 4), dpi=100, layout="constrained")
    axes = canvas.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1, label="chance")
    axes.plot(false_rate, true_rate, color="#1b5e8c", label=f"AUROC {metrics['auroc'].value:.3f}")
    axes.plot(
        1 - metrics["specificity"].value, metrics["sensitivity"].value, "o", color="#b3441f",
        label=f"best F1 {metrics['f1'].value:.3f}",
    )  # fmt: skip
    axes.set(xlabel="1 − specificity", ylabel="sensitivity", xlim=(0, 1), ylim=(0, 1.01))
    axes.set_aspect("equal")
    axes.legend(loc="lower right", frameon=False)
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return Figure(
        name="roc.png",
        png=buffer.getvalue(),
        title="ROC curve of zero-shot pneumonia classification",
        caption=(
            f"{metrics['auroc'].n} images; AUROC {metrics['auroc'].value:.3f} "
            f"({metrics['auroc'].low:.3f} to {metrics['auroc'].high:.3f}). "
            "The dot is the threshold with the best F1."
        ),
    )


def evaluate(
    model: Any, cohort: Cohort, features: Features, settings: ZeroShotClassificationSettings
) -> Result:
    """Score ``model`` on the labelled images of ``cohort``."""
    samples, dropped = labelled_images(cohort.table, features)
    images = features_of(samples, features, "projected").double().numpy()
    similarities = images @ class_embeddings(model, settings).T
    predictions = samples[list(SHOWN)].assign(
        cosine_negative=similarities[:, 0],
        cosine_positive=similarities[:, 1],
        score=class_probabilities(similarities, settings.temperature)[:, 1],
    )
    for pair in settings.prompt_pairs:
        classes = [
            class_embedding(model, prompts, settings.prompt_average)
            for prompts in (pair.negative, pair.positive)
        ]
        cosines = images @ np.stack(classes).T
        predictions[f"score/{pair.name}"] = class_probabilities(cosines, settings.temperature)[:, 1]
    metrics = summarise(predictions, settings)
    protocol = {
        **settings.model_dump(mode="json", exclude={"device"}),
        "geometry": features.geometry,
        "score": "softmax over the cosines with the two class prompts",
        "threshold_rule": "best F1 on the evaluated images",
    }
    data = {
        **cohort.data,
        "fingerprint": features.data_fingerprint(cohort),
        "samples": len(samples),
        "positives": int(samples["label"].sum()),
        "dropped": dropped,
    }
    figures = [draw_roc(predictions, metrics)]
    return Result("zero_shot_classification", data, protocol, metrics, predictions, figures)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options = classification_parser(__doc__).parse_args(argv)
    settings = read_settings(options.settings, ZeroShotClassificationSettings)
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    features = read_features(options.features, options.model)
    model = cxrflow.load(options.model, choose_device(settings.device))
    result = evaluate(model, cohort, features, settings)
    result.write(options.output, model_name(options.model, model.run), options.seed, options.task)
    log.info("AUROC %.3f, F1 %.3f", result.metrics["auroc"].value, result.metrics["f1"].value)


if __name__ == "__main__":
    run(main)
