"""Predictions and results of a benchmark; a result folder is written whole or not at all.

A program returns :class:`Predictions`; :func:`measure` makes a :class:`Result` of them, which is
written as metrics.json, predictions.parquet and figures/. ``metrics.json`` has one shape for all:
task, benchmark, model, seed, learnt, drawn, data, protocol and metrics, where a metric is a value
with its interval and the number of samples behind it.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cxr_files.atomic import atomic_folder, write_json
from cxrflow.benchmarks.settings import EncodingSettings, IntervalSettings
from cxrflow.metrics.intervals import (
    Estimate,
    Floats,
    Statistic,
    clusters_of,
    weighted_mean,
)
from cxrflow.metrics.rare_classes import Labels, Supports

# Settings that decide how fast a benchmark runs or what it draws, and no score.
NO_PROTOCOL = {"device", "encoder_batch_size", "figures", "figure_phrases"}

Clusters = Callable[[pd.DataFrame, str], NDArray[np.int64]]


@dataclass(frozen=True)
class Figure:
    """A picture for the report page, PNG bytes, and what stands with it."""

    name: str
    png: bytes
    title: str
    caption: str
    category: str = ""
    cnr: float | None = None


@dataclass(frozen=True)
class CountedStatistic:
    """The metrics of N samples under resampling counts [R, N], and the samples behind each.

    ``size``, ``behind``: of a metric's name the number of samples, and what they hold that is to be
    found: boxes, candidates, samples by class. Those of ``labels``, whose counts also decide the
    interval, are not named again.
    """

    metrics: Statistic
    size: Callable[[str], int]
    labels: Labels | None = None  # of the classes that metrics are of
    behind: Callable[[str], Mapping[str, int]] = lambda name: {}

    def __call__(self, counts: Floats) -> Mapping[str, Floats]:
        return self.metrics(counts)


def means(columns: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> CountedStatistic:
    """Metrics that are means: of each, the values [N] and which samples [N] count."""
    finite = {
        name: np.isfinite(np.asarray(values, dtype=np.float64)) & np.asarray(rows, dtype=bool)
        for name, (values, rows) in columns.items()
    }
    return CountedStatistic(
        lambda counts: {name: weighted_mean(counts, *column) for name, column in columns.items()},
        lambda name: int(finite[name].sum()),
    )


@dataclass(frozen=True)
class Predictions:
    """The return value of a program: a row a sample, and the statistic that is reported.

    ``data``: of what, beside the cohort's name and fingerprint. ``protocol``: how it was measured,
    beside the settings; its ``interval_over`` says what intervals are over, where that is more
    than samples. ``estimates``: metrics that are not resampled, such as counts. ``draw``: the
    figures, by the metrics. ``arrays``: by file name without ``.npy``.
    """

    table: pd.DataFrame
    statistic: CountedStatistic | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    draw: Callable[[Mapping[str, Estimate]], Sequence[Figure]] = lambda metrics: []
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The metrics of one model, and what they are of."""

    benchmark: str
    data: Mapping[str, Any]
    protocol: Mapping[str, Any]
    metrics: Mapping[str, Estimate]
    predictions: pd.DataFrame
    figures: list[Figure] = field(default_factory=list)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def write(
        self,
        folder: Path,
        model: str,
        seed: int,
        task: str | None = None,
        learnt: bool | None = None,
        drawn: bool = False,
        add: Callable[[Path], None] = lambda unfinished: None,
    ) -> None:
        """Write the result folder in one piece.

        ``learnt``: whether the model has learnt by its run.json; None where that was not
        assessed, or nothing was trained. ``drawn``: another seed gives other weights. ``add``
        writes more files into the folder before it is in its place.
        """
        with atomic_folder(folder, f"{self.benchmark} result") as unfinished:
            self.predictions.to_parquet(unfinished / "predictions.parquet", index=False)
            for name, values in self.arrays.items():
                np.save(unfinished / f"{name}.npy", values, allow_pickle=False)
            pictures = unfinished / "figures"
            pictures.mkdir()
            entries = []
            for order, figure in enumerate(self.figures):
                (pictures / figure.name).write_bytes(figure.png)
                entries.append(
                    {
                        "file": figure.name,
                        "title": figure.title,
                        "caption": figure.caption,
                        "category": figure.category,
                        "cnr": figure.cnr,
                        "order": order,
                    }
                )
            write_json(pictures / "examples.json", entries)
            write_json(
                unfinished / "metrics.json",
                {
                    "task": task or self.benchmark,
                    "benchmark": self.benchmark,
                    "model": model,
                    "seed": seed,
                    "learnt": learnt,
                    "drawn": drawn,
                    "data": dict(self.data),
                    "protocol": dict(self.protocol),
                    "metrics": {name: metric.as_json() for name, metric in self.metrics.items()},
                },
            )
            add(unfinished)


def by_class(labels_N: ArrayLike, rows_N: ArrayLike | None = None) -> dict[str, int]:
    """How many samples have each label, by name; of the chosen rows."""
    labels = pd.Series(np.asarray(labels_N))
    chosen = labels if rows_N is None else labels[np.asarray(rows_N, dtype=bool)]
    return {str(name): int(count) for name, count in chosen.value_counts().sort_index().items()}


def patients(table: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Return the cluster numbers [N] of a table with a ``subject_id``."""
    return clusters_of(table["subject_id"], unit)


def estimate(
    statistic: CountedStatistic, clusters_N: NDArray[np.int64], intervals: IntervalSettings
) -> dict[str, Estimate]:
    """Return every metric with its interval; samples of one cluster are drawn together."""
    supports = Supports(statistic.labels, clusters_N)
    values, scores = supports.replicated(statistic, intervals.replicates, intervals.seed)
    estimates = {}
    for name, value in values.items():
        size = statistic.size(name)
        ends = supports.interval(name, values, scores, size, intervals.level)
        counts = {**supports.counts(name), **statistic.behind(name)}
        estimates[name] = Estimate(value, *ends, size, counts)
    return estimates


def measure(
    benchmark: str, predictions: Predictions, settings: Any, clusters: Clusters = patients
) -> Result:
    """Return the metrics of predictions with their intervals, and how they were measured."""
    table, metrics = predictions.table, dict(predictions.estimates)
    if predictions.statistic is not None:
        clusters_N = clusters(table, settings.intervals.unit)
        metrics |= estimate(predictions.statistic, clusters_N, settings.intervals)
    speed = {"batch_size"} if isinstance(settings, EncodingSettings) else set()
    return Result(
        benchmark,
        predictions.data,
        {**settings.model_dump(mode="json", exclude=NO_PROTOCOL | speed), **predictions.protocol},
        metrics,
        table,
        list(predictions.draw(metrics)),
        predictions.arrays,
    )


def png_of(canvas: Any) -> bytes:
    """Return a figure of matplotlib as PNG, the same bytes whenever it is drawn."""
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def slug(name: str) -> str:
    """Return a category as metric names have it: ``Pleural Effusion`` is ``pleural_effusion``.

    A slash, which divides the parts of such a name, is a blank: ``Nodule/Mass`` is ``nodule_mass``.
    """
    return "_".join(name.lower().replace("/", " ").split())
