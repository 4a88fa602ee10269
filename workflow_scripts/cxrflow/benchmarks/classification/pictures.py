"""Pictures of how well images are classified: ROC curves, or the areas under them by class."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from cxrflow.benchmarks.classification.scores import class_names, columns_of, threshold_words
from cxrflow.benchmarks.classification.settings import LabelSettings
from cxrflow.benchmarks.result import Figure, png_of
from cxrflow.metrics.classification import roc_curve
from cxrflow.metrics.intervals import Estimate
from cxrflow.metrics.operating_points import operating_points
from cxrflow.metrics.rare_classes import counts_text

BLUE, RED = "#1b5e8c", "#b3441f"
CURVES = 5  # more cannot be told apart in one picture
ROWS = 20  # of the highest areas, and of the lowest


def draw_classes(
    predictions: pd.DataFrame, metrics: Mapping[str, Estimate], settings: LabelSettings
) -> Figure:
    """The ROC curves; of more classes than :data:`CURVES` the areas under them."""
    if len(class_names(predictions)) > CURVES:
        return _areas(predictions, metrics)
    return _curves(predictions, metrics, threshold_words(settings))


def _areas(predictions: pd.DataFrame, metrics: Mapping[str, Estimate]) -> Figure:
    from matplotlib.figure import Figure as Canvas

    rated = {name: metrics.get(f"auroc/{name}") for name in class_names(predictions)}
    areas = {k: v for k, v in rated.items() if v is not None and np.isfinite(v.value)}
    names = sorted(areas, key=lambda name: areas[name].value)  # drawn from the bottom up
    lines = names if len(names) <= 2 * ROWS else [*names[:ROWS], *names[-ROWS:]]
    canvas = Canvas(figsize=(5, 0.8 + 0.19 * len(lines)), dpi=100, layout="constrained")
    axes = canvas.subplots()
    axes.axvline(0.5, color="0.7", linestyle="--", linewidth=1)
    for place, name in enumerate(lines):
        axes.plot([areas[name].low, areas[name].high], [place, place], color=BLUE, linewidth=1)
        axes.plot(areas[name].value, place, "o", color=BLUE, markersize=4)
    labels = [_label(name, areas[name]) for name in lines]
    axes.set_yticks(range(len(lines)), labels, fontsize="small")
    axes.set(xlabel="AUROC", xlim=(0, 1), ylim=(-0.7, len(lines) - 0.3))
    axes.grid(axis="x", color="0.93")
    axes.spines[["top", "right"]].set_visible(False)
    mean = metrics["auroc"]
    caption = (
        f"{mean.n} images; AUROC of each class with its interval and its number of positives, mean "
        f"{_with_ends(mean)}. The dashed line is chance."
    )
    if len(lines) < len(names):
        caption += f" The {ROWS} highest and the {ROWS} lowest of {len(names)} classes."
    return Figure("classes.png", png_of(canvas), "Zero-shot classification by class", caption)


def _curves(predictions: pd.DataFrame, metrics: Mapping[str, Estimate], threshold: str) -> Figure:
    """With the operating point of the table, by its ``threshold``, where there is one class."""
    from matplotlib.figure import Figure as Canvas

    area = metrics["auroc"]
    canvas = Canvas(figsize=(4, 4), dpi=100, layout="constrained")
    axes = canvas.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1, label="chance")
    names = class_names(predictions)
    labels_NC, scores_NC = (columns_of(predictions, kind) for kind in ("label", "score"))
    for number, name in enumerate(names or [""]):
        labelled = np.isfinite(labels_NC[:, number])
        if not labelled.any():
            continue
        points = operating_points(labels_NC[labelled, number], scores_NC[labelled, number])
        of_class = metrics[f"auroc/{name}"] if name else area
        color = None if name else BLUE
        label = f"{_label(name or 'AUROC', of_class)} {of_class.value:.3f}"
        axes.plot(*roc_curve(points), color=color, label=label)
    counts = counts_text(area.counts)
    positives = f", positives and negatives {counts}" if counts and not names else ""
    caption = f"{area.n} images{positives}; AUROC {_with_ends(area)}."
    if not names and {"specificity", "sensitivity", "f1"} <= metrics.keys():
        axes.plot(
            1 - metrics["specificity"].value, metrics["sensitivity"].value, "o", color=RED,
            label=f"F1 {metrics['f1'].value:.3f}",
        )  # fmt: skip
        caption += f" The dot is the threshold: {threshold}."
    axes.set(xlabel="1 − specificity", ylabel="sensitivity", xlim=(0, 1), ylim=(0, 1.01))
    axes.set_aspect("equal")
    axes.legend(loc="lower right", frameon=False, fontsize="small" if names else None)
    return Figure("roc.png", png_of(canvas), "ROC curve of zero-shot classification", caption)


def _label(name: str, area: Estimate) -> str:
    """A class with its number of positives."""
    positives = area.counts.get("positives")
    return name.replace("_", " ") + ("" if positives is None else f" ({positives})")


def _with_ends(area: Estimate) -> str:
    """A value with its interval; a dash where positives are too few for one."""
    ends = f"{area.low:.3f} to {area.high:.3f}" if np.isfinite(area.low) else "–"
    return f"{area.value:.3f} ({ends})"
