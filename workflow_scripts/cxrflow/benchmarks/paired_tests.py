"""Paired tests between rows of a table: are two models' scores on the same samples different?

Not in the papers, which print means and spreads over seeds alone. Both models saw the same test
samples, so their difference is bootstrapped on the same resamples: what makes a sample hard for
both cancels. A metric is recomputed from predictions.parquet by the benchmark's own ``statistics``
and averaged over the training seeds of each model within a resample, so the interval is over test
samples, given these trainings.

Writes one entry a comparison: the difference (first less reference) with its interval and
two-sided p, or the reason why there is none.
"""

import importlib
import logging
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.settings import PairedComparison, PairedTestSettings
from cxrflow.command import explain
from cxrflow.errors import InputError
from cxrflow.files import read_object, write_json
from cxrflow.metrics.intervals import Floats, Statistic, clusters_of, holm, paired_bootstrap
from cxrflow.parquet import read_table

log = logging.getLogger("cxrflow")

FIELDS = ("task", "benchmark", "model", "seed", "data", "protocol")


def patients(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Cluster numbers [N] of a table with a ``subject_id``."""
    return clusters_of(predictions["subject_id"], unit)


def function(name: str) -> Any:
    """A benchmark's function by ``module:function``; imported here, since most import torch."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"cxrflow.benchmarks.{module}"), attribute)


@dataclass(frozen=True)
class Predictions:
    """What one model with one training seed predicted, and how it was measured."""

    benchmark: str
    file: Path
    fingerprint: str
    protocol: Mapping[str, Any]
    samples: pd.DataFrame

    def statistic(self, samples: pd.DataFrame) -> Statistic:
        """The benchmark's metrics of these samples, at the protocol they were measured with."""
        benchmark = BENCHMARKS[self.benchmark]
        chosen = {k: v for k, v in self.protocol.items() if k in benchmark.settings.model_fields}
        try:
            settings = benchmark.settings.model_validate(chosen)
            made: Statistic = function(str(benchmark.statistics))(samples, settings)
            return made
        except ValidationError as error:
            raise InputError(explain(error, str(self.file.parent / "metrics.json"))) from None
        except KeyError as error:
            raise InputError(f"{self.file}: column {error} is missing; run it again") from None


Runs = dict[tuple[str, str], list[Predictions]]


def read_predictions(files: Sequence[Path]) -> Runs:
    """Read predictions.parquet files with the metrics.json beside them, by (task, model)."""
    runs: Runs = {}
    pairable = {name: one for name, one in BENCHMARKS.items() if one.statistics is not None}
    for file in files:
        said = read_object(file.parent / "metrics.json", FIELDS)
        benchmark = str(said["benchmark"])
        if benchmark not in pairable:
            raise InputError(
                f"{file.parent / 'metrics.json'}: benchmark is '{benchmark}'; expected one of "
                f"{', '.join(pairable)}"
            )
        found = Predictions(
            benchmark,
            file,
            str(said["data"].get("fingerprint")),
            {k: v for k, v in said["protocol"].items() if k not in pairable[benchmark].own},
            read_table(file, pairable[benchmark].key),
        )
        runs.setdefault((str(said["task"]), str(said["model"])), []).append(found)
    return runs


def aligned(runs: Sequence[Predictions], key: Sequence[str]) -> list[pd.DataFrame] | None:
    """The samples of all runs in the first one's order; None when they are not the same ones."""
    first = pd.MultiIndex.from_frame(runs[0].samples[list(key)].astype(str))
    tables = []
    for one in runs:
        index = pd.MultiIndex.from_frame(one.samples[list(key)].astype(str))
        if index.has_duplicates or len(index) != len(first):
            return None
        places = index.get_indexer(first)
        if (places < 0).any():
            return None
        tables.append(one.samples.iloc[places].reset_index(drop=True))
    return tables


def why_not(own: Sequence[Predictions], other: Sequence[Predictions]) -> str | None:
    """The reason two models were not measured alike, or None."""
    if not own or not other:
        return "no predictions of both"
    if len({one.fingerprint for one in (*own, *other)}) > 1:
        return "measured on different data"
    for one in (*own[1:], *other):
        names = sorted(
            name
            for name in own[0].protocol.keys() | one.protocol.keys()
            if own[0].protocol.get(name) != one.protocol.get(name)
        )
        if names:
            return f"measured with different protocols ({', '.join(names)})"
    return None


def mean_over_seeds(statistics: Sequence[Statistic], names: Sequence[str]) -> Statistic:
    """The chosen metrics, numbered as in ``names``, averaged over trainings in each resample."""

    def averaged(counts: Floats) -> dict[str, Floats]:
        each = [statistic(counts) for statistic in statistics]
        return {
            str(number): np.mean([found[name] for found in each], axis=0)
            for number, name in enumerate(names)
            if all(name in found for found in each)
        }

    return averaged


def compare(
    comparisons: Sequence[PairedComparison], runs: Runs, settings: PairedTestSettings
) -> list[dict[str, Any]]:
    """The comparisons of one benchmark between the same two models, made together."""
    asked = comparisons[0]
    own = runs.get((asked.task, asked.model), [])
    other = runs.get((asked.task, asked.reference_model), [])
    reason = why_not(own, other)
    found = {}
    if reason is None:
        benchmark = BENCHMARKS[own[0].benchmark]
        tables = aligned([*own, *other], benchmark.key)
        if tables is None:
            reason = "measured on different samples"
        else:
            made = [one.statistic(table) for one, table in zip((*own, *other), tables, strict=True)]
            found = paired_bootstrap(
                mean_over_seeds(made[: len(own)], [one.metric for one in comparisons]),
                mean_over_seeds(made[len(own) :], [one.reference_metric for one in comparisons]),
                function(benchmark.clusters)(tables[0], settings.unit),
                **settings.resampling(),
            )
    entries = []
    for number, one in enumerate(comparisons):
        entry: dict[str, Any] = {**one.model_dump(), "reason": reason}
        if str(number) in found and np.isfinite(found[str(number)].value):
            entry |= found[str(number)].as_json()
        elif reason is None:
            entry["reason"] = "not defined for both"
        entries.append(entry)
    return entries


def compare_all(runs: Runs, settings: PairedTestSettings) -> list[dict[str, Any]]:
    """Every comparison in its order, with ``p_holm``: p corrected for all of them (Holm 1979)."""
    groups: dict[tuple[str, str, str], list[PairedComparison]] = {}
    for one in settings.comparisons:
        groups.setdefault((one.task, one.model, one.reference_model), []).append(one)
    entries = [entry for group in groups.values() for entry in compare(group, runs, settings)]
    tested = [entry for entry in entries if entry["reason"] is None]
    for entry, corrected in zip(tested, holm([entry["p"] for entry in tested]), strict=True):
        entry["p_holm"] = float(corrected)
    return entries


def compare_rows(options: Namespace, settings: PairedTestSettings) -> None:
    """What ``cxrflow.benchmarks.compare_rows`` calls."""
    entries = compare_all(read_predictions(options.predictions), settings)
    protocol = settings.model_dump(mode="json", exclude={"comparisons"})
    write_json(options.output, {"protocol": protocol, "comparisons": entries})
    log.info("%d comparisons, %d tested", len(entries), sum(e["reason"] is None for e in entries))
