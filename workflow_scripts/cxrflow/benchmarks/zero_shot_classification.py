"""Zero-shot classification on RSNA: is there pneumonia, judged by two prompts alone?

BioViL sections 2.2 and 4.4, Tables 6, A.1 and A.2. The score of an image is the softmax, over the
two classes, of its cosine with each class prompt. The threshold is where F1 on the evaluated
images is greatest (Appendix A.3), so accuracy, sensitivity, specificity and F1 are optimistic, in
the paper as here; AUROC is not. RSNA's negatives are of two kinds, and the second is the hard one,
so AUROC against each is reported too.
"""

import io
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.image_inputs import image_benchmark_parser, read_inputs
from cxrflow.benchmarks.inputs import (
    Cohort,
    Pixels,
    data_fingerprint,
    drop_rows,
    image_batches,
)
from cxrflow.benchmarks.result import Figure, Result, model_name
from cxrflow.benchmarks.settings import ZeroShotClassificationSettings
from cxrflow.command import read_settings, run
from cxrflow.errors import InputError
from cxrflow.metrics.classification import auroc, binary_metrics, operating_points, roc_curve
from cxrflow.metrics.intervals import Estimate, bootstrap, clusters_of

log = logging.getLogger("cxrflow")

COLUMNS = ("sample_id", "subject_id", "image_id", "label", "class")
# RSNA's names of the two kinds of negatives, and what they are called in metrics.json.
NEGATIVE_CLASSES = {"Normal": "normal", "No Lung Opacity / Not Normal": "not_normal"}


def class_embedding(model: Any, prompts: Sequence[str]) -> NDArray[np.float64]:
    """Embedding [D] of a class: the mean of its prompts' embeddings, of length one again."""
    mean = model.encode_text(list(prompts)).double().cpu().numpy().mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def class_similarities(
    model: Any, image_ids: Sequence[str], pixels: Pixels, settings: ZeroShotClassificationSettings
) -> NDArray[np.float64]:
    """Cosines [N, 2] of every image with the negative and the positive class."""
    prompts = (settings.negative_prompts, settings.positive_prompts)
    classes = np.stack([class_embedding(model, texts) for texts in prompts])
    blocks = []
    for _, images in image_batches(pixels, image_ids, settings.batch_size):
        embedded = model.encode_image(images).projected_global.double().cpu().numpy()
        blocks.append(embedded @ classes.T)
    return np.concatenate(blocks)


def class_probabilities(
    similarities: NDArray[np.float64], temperature: float
) -> NDArray[np.float64]:
    """Softmax [N, C] over the cosines [N, C] divided by the temperature (section 2.2)."""
    scaled = similarities / temperature
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def summarise(
    predictions: pd.DataFrame, settings: ZeroShotClassificationSettings
) -> dict[str, Estimate]:
    """The table's metrics, and AUROC of the positives against each kind of negatives."""
    labels = predictions["label"].to_numpy()
    scores = predictions["score"].to_numpy()
    against = {
        f"auroc/{name}": (labels == 1) | (predictions["class"] == kind).to_numpy()
        for kind, name in NEGATIVE_CLASSES.items()
        if ((predictions["class"] == kind) & (labels == 0)).any()
    }

    def metrics(counts: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        found = binary_metrics(labels, scores, counts)
        for name, used in against.items():
            found[name] = auroc(labels[used], scores[used], counts[:, used])
        return found

    names = ("auroc", "accuracy", "sensitivity", "specificity", "f1", "threshold")
    sizes = dict.fromkeys(names, len(labels))
    sizes.update(
        sensitivity=int((labels == 1).sum()),
        specificity=int((labels == 0).sum()),
        **{name: int(used.sum()) for name, used in against.items()},
    )
    chosen = settings.intervals
    clusters = clusters_of(predictions["subject_id"], chosen.unit)
    return bootstrap(metrics, clusters, sizes, chosen.replicates, chosen.seed, chosen.level)


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
    model: Any, cohort: Cohort, pixels: Pixels, settings: ZeroShotClassificationSettings
) -> Result:
    """Score ``model`` on the labelled images of ``cohort``."""
    tests = {
        "image is not in the pixel store": ~pixels.holds(cohort.table["image_id"].tolist()),
        "label is missing": cohort.table["label"].isna(),
    }
    samples, dropped = drop_rows(cohort.table, tests)
    labels = samples["label"].astype(int)
    if sorted(labels.unique()) != [0, 1]:
        raise InputError(
            f"samples.parquet: column 'label' has {sorted(labels.unique())}; want 0, 1"
        )
    similarities = class_similarities(model, samples["image_id"].tolist(), pixels, settings)
    predictions = samples[["sample_id", "subject_id", "image_id", "class"]].assign(
        label=labels,
        cosine_negative=similarities[:, 0],
        cosine_positive=similarities[:, 1],
        score=class_probabilities(similarities, settings.temperature)[:, 1],
    )
    metrics = summarise(predictions, settings)
    protocol = {
        **settings.model_dump(mode="json", exclude={"batch_size", "device"}),
        "geometry": str(pixels.geometry),
        "score": "softmax over the cosines with the two class prompts",
        "threshold_rule": "best F1 on the evaluated images",
    }
    data = {
        **cohort.data,
        "fingerprint": data_fingerprint(cohort, pixels),
        "samples": len(samples),
        "positives": int(labels.sum()),
        "dropped": dropped,
    }
    figures = [draw_roc(predictions, metrics)]
    return Result("zero_shot_classification", data, protocol, metrics, predictions, figures)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options = image_benchmark_parser(__doc__).parse_args(argv)
    settings = read_settings(options.settings, ZeroShotClassificationSettings)
    model, cohort, pixels = read_inputs(options, COLUMNS, settings)
    result = evaluate(model, cohort, pixels, settings)
    result.write(options.output, model_name(options.model, model.run), options.seed)
    log.info("AUROC %.3f, F1 %.3f", result.metrics["auroc"].value, result.metrics["f1"].value)


if __name__ == "__main__":
    run(main)
