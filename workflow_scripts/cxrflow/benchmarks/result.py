"""What every benchmark writes: metrics.json, predictions.parquet and figures/, whole or not at all.

``metrics.json`` has one shape for all: task, benchmark, model, seed, learnt, drawn, data, protocol
and metrics, where a metric is a value with its interval and the number of samples behind it.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.settings import IntervalSettings
from cxrflow.files.atomic import atomic_folder, write_json
from cxrflow.metrics.intervals import Estimate, Statistic, bootstrap, clusters_of


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
class Result:
    """Everything a benchmark found out about one model."""

    benchmark: str
    data: Mapping[str, Any]
    protocol: Mapping[str, Any]
    metrics: Mapping[str, Estimate]
    predictions: pd.DataFrame  # one row a sample
    figures: list[Figure] = field(default_factory=list)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # by file name without .npy

    def write(
        self,
        folder: Path,
        model: str,
        seed: int,
        task: str | None = None,
        learnt: bool | None = None,
        drawn: bool = False,
    ) -> None:
        """Write the result folder in one piece.

        ``learnt``: what the model's run.json says of its training; None where none was trained.
        ``drawn``: then, whether it has weights that are drawn by its seed.
        """
        with atomic_folder(folder, f"{self.benchmark} result") as made:
            self.predictions.to_parquet(made / "predictions.parquet", index=False)
            for name, values in self.arrays.items():
                np.save(made / f"{name}.npy", values, allow_pickle=False)
            pictures = made / "figures"
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
                made / "metrics.json",
                {
                    "task": task or self.benchmark,
                    "benchmark": self.benchmark,
                    "model": model,
                    "seed": seed,
                    "learnt": learnt,
                    "drawn": drawn,
                    "data": dict(self.data),
                    "protocol": dict(self.protocol),
                    "metrics": {name: found.as_json() for name, found in self.metrics.items()},
                },
            )


def patients(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Cluster numbers [N] of a table with a ``subject_id``."""
    return clusters_of(predictions["subject_id"], unit)


def estimates(
    statistic: Statistic,
    predictions: pd.DataFrame,
    sizes: Mapping[str, int] | int,
    intervals: IntervalSettings,
    clusters: Callable[[pd.DataFrame, str], NDArray[np.int64]] = patients,
) -> dict[str, Estimate]:
    """Every metric with its interval; ``sizes``: samples behind each, or behind all of them."""
    if isinstance(sizes, int):
        sizes = dict.fromkeys(statistic(np.ones((1, len(predictions)))), sizes)
    drawn = clusters(predictions, intervals.unit)
    return bootstrap(statistic, drawn, sizes, **intervals.resampling())


def png_of(canvas: Any) -> bytes:
    """A figure of matplotlib as PNG, the same bytes whenever it is drawn."""
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def slug(name: str) -> str:
    """A category as it stands in metric names: ``Pleural Effusion`` is ``pleural_effusion``."""
    return "_".join(name.lower().split())
