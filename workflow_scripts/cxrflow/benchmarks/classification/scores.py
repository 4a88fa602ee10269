"""Metrics of images scored for one class or several, with the names they have in metrics.json.

A single class gives ``<metric>``; of several, that is the mean over the classes, and each class has
its ``<metric>/<class>``; ``classes`` is how many have both labels and so are in the mean. How few
positives count: :mod:`cxrflow.metrics.rare_classes`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings, TransferSettings
from cxrflow.benchmarks.classification.settings import LabelSettings, Metric
from cxrflow.benchmarks.heads.shares import percent, score_column
from cxrflow.benchmarks.result import CountedStatistic
from cxrflow.metrics import multiclass
from cxrflow.metrics.classification import AREAS, BINARY
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.multilabel import by_class, fixed_mean
from cxrflow.metrics.rare_classes import Behind, Labels

OVERALL = ("accuracy", "balanced_accuracy")  # of exclusive classes: of all answers


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
) -> CountedStatistic:
    """AUROC and the chosen metrics; ``names`` of the classes, none of a single one.

    A mean is over the classes that have both labels on all samples, in every resample; one that
    the resample leaves without has its value on all samples there. ``threshold_C``: chosen
    beforehand, in place of the settings' rule. A class without one, NaN, is in no mean of a metric
    that needs it.
    """
    rule = settings.threshold if threshold_C is None else threshold_C.tolist()
    metric_names: list[str] = list(dict.fromkeys(["auroc", *settings.metrics]))
    # Of exclusive classes the answer is no matter of a threshold.
    of_class = [name for name in (AREAS if settings.exclusive else BINARY) if name in metric_names]
    of_classes = by_class(labels_NC, scores_NC, rule, of_class)

    def each_class(counts: Floats) -> dict[str, Floats]:
        each = of_classes(counts)
        return _of_answers(labels_NC, scores_NC, counts, each) if settings.exclusive else each

    observed = {name: value[0] for name, value in each_class(np.ones((1, len(labels_NC)))).items()}
    has_both = np.isfinite(observed["auroc"])
    has_threshold = has_both if threshold_C is None else has_both & np.isfinite(threshold_C)

    def metrics(counts: Floats) -> dict[str, Floats]:
        each = each_class(counts)
        scores: dict[str, Floats] = {}
        overall = {}
        if settings.exclusive:
            answers = (labels_NC.argmax(axis=1), scores_NC.argmax(axis=1))
            recalls, all_recalls = each["sensitivity"], observed["sensitivity"]
            overall = {
                "accuracy": multiclass.accuracy(*answers, counts),
                "balanced_accuracy": fixed_mean(recalls, all_recalls, np.isfinite(all_recalls)),
            }
        for name in metric_names:
            if name in overall:
                scores[name] = overall[name]
            elif name in each and names:
                scores[name] = fixed_mean(each[name], observed[name], included(name))
                scores |= {f"{name}/{class_}": each[name][:, c] for c, class_ in enumerate(names)}
            elif name in each:
                scores[name] = each[name][:, 0]
        return scores | ({"classes": np.full(len(counts), has_both.sum(), float)} if names else {})

    positives_C = np.nansum(labels_NC, axis=0)
    of_each = {name: int(count) for name, count in zip(names or [""], positives_C, strict=True)}

    def included(name: str) -> NDArray[np.bool_]:
        return has_both if name in AREAS else has_threshold

    return CountedStatistic(
        metrics,
        class_size(labels_NC, names),
        labels_behind(labels_NC, names, included, settings.exclusive),
        lambda name: of_each if name == "accuracy" and settings.exclusive else {},
    )


def labels_behind(
    labels_NC: Floats,
    names: Sequence[str],
    included: Callable[[str], NDArray[np.bool_]],
    exclusive: bool = False,
) -> Labels:
    """What ``<metric>`` and ``<metric>/<class>`` are of; ``included`` [C] are those of a mean."""
    classes = dict(zip(names or [""], labels_NC.T, strict=True))

    def behind(metric: str) -> Behind | None:
        kind, _, class_name = metric.partition("/")
        if kind not in get_args(Metric) or class_name not in {"", *names}:
            return None
        if class_name or not names:
            return Behind((class_name,), kind == "auroc")
        mean = [names[int(c)] for c in np.flatnonzero(included(kind))]
        if exclusive and kind in OVERALL:
            return None if kind == "accuracy" else Behind(tuple(mean))
        weights = {f"{kind}/{name}": 1 / len(mean) for name in mean}
        return Behind(tuple(mean), kind == "auroc", weights)

    return Labels(classes, behind)


def _of_answers(
    labels_NC: Floats, scores_NC: Floats, counts: Floats, each: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Metrics by class [R, C], where the class of the greatest score is the answer.

    AUROC and average precision are each class's against the others.
    """
    labels_N, called_N = labels_NC.argmax(axis=1), scores_NC.argmax(axis=1)
    names = range(labels_NC.shape[1])
    recalls = multiclass.recalls(labels_N, called_N, names, counts)
    f1 = np.stack([multiclass.class_f1(labels_N, called_N, n, counts) for n in names], axis=-1)
    return {**each, "sensitivity": recalls, "f1": f1}


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
) -> dict[str, list[CountedStatistic]]:
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

    first = next(iter(runs.values()))[0]

    def behind(metric: str) -> Mapping[str, int]:
        kind, _, share = metric.partition("/")
        return first.behind(kind) if share in runs else {}

    return CountedStatistic(metrics, first.size, over_shares(first.labels), behind)


def over_shares(labels: Labels | None) -> Labels | None:
    """The labels of one run's metrics, for ``<metric>/<per cent>/<class>``, means over runs."""
    if labels is None:
        return None

    def behind(metric: str) -> Behind | None:
        kind, _, rest = metric.partition("/")
        share, slash, class_name = rest.partition("/")
        of_run = labels.behind(f"{kind}{slash}{class_name}")
        if of_run is None:
            return None
        prefix = f"{kind}/{share}"
        weights = {f"{prefix}/{m.partition('/')[2]}": w for m, w in of_run.weights.items()}
        return of_run._replace(weights=weights)

    return Labels(labels.classes, behind)
