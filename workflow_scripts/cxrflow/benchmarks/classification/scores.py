"""Metrics of images scored for one class or several, with the names they have in metrics.json.

A single class gives ``<metric>``; of several, that is the mean over the classes, and each class has
its ``<metric>/<class>``; ``classes`` is how many have both labels and so are in the mean.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings, TransferSettings
from cxrflow.benchmarks.classification.settings import LabelSettings
from cxrflow.benchmarks.heads.shares import percent, score_column
from cxrflow.benchmarks.result import CountedStatistic
from cxrflow.metrics import multiclass
from cxrflow.metrics.intervals import Floats, Statistic
from cxrflow.metrics.multilabel import by_class, mean_of_classes

AREAS = ("auroc", "average_precision")  # that need no threshold


def class_names(predictions: pd.DataFrame) -> list[str]:
    """The classes of a predictions table, as its columns call them; none of a single class."""
    columns = map(str, predictions.columns)
    return [name.removeprefix("label/") for name in columns if name.startswith("label/")]


def columns_of(predictions: pd.DataFrame, kind: str) -> Floats:
    """[N, C] of the columns ``kind``, or ``kind/<class>``, in the classes' order."""
    names = [f"{kind}/{name}" for name in class_names(predictions)] or [kind]
    return predictions[names].to_numpy("float64")


def class_metrics(
    labels_NC: Floats,
    scores_NC: Floats,
    names: Sequence[str],
    settings: LabelSettings,
    threshold_C: Floats | None = None,
) -> Statistic:
    """AUROC and the chosen metrics; ``names`` of the classes, none of a single one.

    ``threshold_C``: chosen beforehand, in place of the settings' rule. A class without one, NaN, is
    in no mean of a metric that needs it.
    """
    rule = settings.threshold if threshold_C is None else threshold_C.tolist()

    def metrics(counts: Floats) -> dict[str, Floats]:
        each = by_class(labels_NC, scores_NC, counts, rule)
        has_both = np.isfinite(each["auroc"])
        has_threshold = has_both if threshold_C is None else has_both & np.isfinite(threshold_C)
        overall: dict[str, Floats] = {}
        if settings.exclusive:
            each, overall = _of_answers(labels_NC, scores_NC, counts, each)
        by_name: dict[str, Floats] = {}
        names_of_metrics: list[str] = ["auroc", *settings.metrics]
        for name in dict.fromkeys(names_of_metrics):
            if name in overall:
                by_name[name] = overall[name]
            elif name in each and names:
                included = has_both if name in AREAS else has_threshold
                by_name[name] = mean_of_classes(each[name], included)
                by_name |= {
                    f"{name}/{class_name}": each[name][:, c] for c, class_name in enumerate(names)
                }
            elif name in each:
                by_name[name] = each[name][:, 0]
        return by_name | ({"classes": has_both.sum(axis=1).astype(np.float64)} if names else {})

    return metrics


def _of_answers(
    labels_NC: Floats, scores_NC: Floats, counts: Floats, each: Mapping[str, Floats]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Metrics by class [R, C] and of all [R], where the class of the greatest score is the answer.

    AUROC and average precision are each class's against the others.
    """
    labels_N, called_N = labels_NC.argmax(axis=1), scores_NC.argmax(axis=1)
    names = range(labels_NC.shape[1])
    recalls = multiclass.recalls(labels_N, called_N, names, counts)
    f1 = np.stack([multiclass.class_f1(labels_N, called_N, n, counts) for n in names], axis=-1)
    areas = {name: each[name] for name in AREAS}
    return areas | {"sensitivity": recalls, "f1": f1}, {
        "accuracy": multiclass.accuracy(labels_N, called_N, counts),
        "balanced_accuracy": mean_of_classes(recalls, np.isfinite(recalls)),
    }


def threshold_words(settings: LabelSettings) -> str:
    """Return the threshold rule in the words of the results' protocol."""
    if settings.exclusive:
        return "none: the class of the greatest score"
    words = {"best_f1": "best F1", "best_mcc": "best correlation (Matthews)"}
    rule = words.get(str(settings.threshold))
    part = getattr(settings, "threshold_part", None)
    where = "the evaluated images" if part is None else f"the images of the part {part}"
    return f"{rule} on {where}" if rule else f"a score of {settings.threshold}"


def class_size(labels_NC: Floats, names: Sequence[str]) -> Callable[[str], int]:
    """Return how many samples stand behind a metric: the positives for sensitivity, and so on."""

    def size(metric: str) -> int:
        kind, last = metric.split("/")[0].removesuffix("_sd"), metric.split("/")[-1]
        labels = labels_NC[:, [names.index(last)]] if last in names else labels_NC
        rows = {"sensitivity": labels == 1, "specificity": labels == 0}
        return int(rows.get(kind, np.isfinite(labels)).any(axis=1).sum())

    return size


# --- several runs of each share of the labels ---------------------------------------------------


def metrics_by_share(
    predictions: pd.DataFrame, settings: LinearProbeSettings | TransferSettings
) -> dict[str, list[Statistic]]:
    """Return, for each share of the labels in per cent, the metrics of each run's scores."""
    names, labels_NC = class_names(predictions), columns_of(predictions, "label")
    return {
        share: [
            class_metrics(labels_NC, columns_of(predictions, column), names, settings)
            for column in (score_column(share, seed) for seed in settings.seeds)
        ]
        for share in map(percent, settings.fractions)
    }


def statistic(
    predictions: pd.DataFrame, settings: LinearProbeSettings | TransferSettings
) -> CountedStatistic:
    """``<metric>/<per cent>`` and ``<metric>_sd/<per cent>``: mean and spread over the runs."""
    runs = metrics_by_share(predictions, settings)

    def metrics(counts: Floats) -> dict[str, Floats]:
        scores = {}
        for share, of_share in runs.items():
            by_run = [run(counts) for run in of_share]
            for name in by_run[0]:
                kind, slash, class_name = name.partition("/")
                values = np.stack([of_run[name] for of_run in by_run])
                scores[f"{kind}/{share}{slash}{class_name}"] = values.mean(axis=0)
                scores[f"{kind}_sd/{share}{slash}{class_name}"] = values.std(axis=0, ddof=1)
        return scores

    size = class_size(columns_of(predictions, "label"), class_names(predictions))
    return CountedStatistic(metrics, size)
