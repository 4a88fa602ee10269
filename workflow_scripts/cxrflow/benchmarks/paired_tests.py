"""Scores over training seeds and test samples: intervals of cells, paired tests between rows.

Not in the papers, which print means and spreads over seeds alone. A metric is recomputed from
predictions.parquet by the benchmark's own ``statistic``, on the same resamples of the samples for
every training; :mod:`cxrflow.metrics.crossed` says what is made of them. Two models are paired
twice: they saw the same samples, and their trainings of one seed, which often start from the same
weights, stand together. What was not trained (published weights, a reference row) stands beside
every training of the other; weights that a seed draws count as a training.

Writes an entry for each result of several trainings, with the interval of each metric, and one for
each comparison: the difference (first less reference) with its interval, or the reason why there is
none. p is given from ``LEAST_SEEDS`` trainings on, and where nothing was trained; but not there if
heads were learnt in several runs whose values differ, as the chance between runs is not in it. A
comparison with a margin has ``p_equivalent`` instead, of two one-sided tests that the difference is
within it, and no part in the correction of the others' p; its two sides may be two tasks of the
same samples.
"""

import logging
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from cxr_files.atomic import write_sealed
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxr_files.settings import explain
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.result import CountedStatistic
from cxrflow.benchmarks.settings import LEAST_SEEDS, PairedComparison, PairedTestSettings
from cxrflow.metrics.crossed import (
    DIFFERENCE,
    Resampled,
    ends_over,
    equivalence,
    over_trainings_and_samples,
    resampled,
    spread_over,
)
from cxrflow.metrics.intervals import holm
from cxrflow.metrics.rare_classes import Supports
from cxrflow.metrics.record import read_metrics
from cxrflow.names import short_name

log = logging.getLogger("cxrflow")

ENDS = ("difference", "difference_low", "difference_high")
P = ("p", "p_holm", "p_equivalent")
SPREAD = ("between", "common", "patients")  # variances of the difference, and patients behind it
RUN = re.compile(r"_seed\d+(?=/|$)")  # in the columns of a head that is learnt in several runs


@dataclass(frozen=True)
class SeedPredictions:
    """The predictions of one model of one training seed, and how they were measured."""

    benchmark: str
    file: Path
    model: str
    seed: int
    learnt: bool | None  # by its run.json; None: not assessed
    fixed: bool  # it was not trained, nor has it weights that its seed draws
    fingerprint: str
    protocol: Mapping[str, Any]
    samples: pd.DataFrame  # in the order of their keys
    behind: Mapping[str, int]  # samples behind each metric

    @cached_property
    def keys(self) -> pd.MultiIndex:
        """The columns that name the samples, as text."""
        return _keys(self.samples, BENCHMARKS[self.benchmark].key)

    def statistic(self) -> CountedStatistic:
        """The benchmark's metrics of the samples, at the protocol they were measured with."""
        benchmark = BENCHMARKS[self.benchmark]
        chosen = {k: v for k, v in self.protocol.items() if k in benchmark.settings.model_fields}
        try:
            settings = benchmark.settings.model_validate(chosen)
            module = imported(benchmark.statistic_module)
            statistic: CountedStatistic = module.statistic(self.samples, settings)
            return statistic
        except ValidationError as error:
            raise InputError(explain(error, str(self.file.parent / "metrics.json"))) from None
        except KeyError as error:
            raise InputError(f"{self.file}: column {error} is missing; run it again") from None

    def runs_differ(self, metric: str) -> bool:
        """True if the runs in which heads were learnt differ in a metric.

        It is a mean over runs, and so one run's value where all have the columns of that run.
        """
        columns = [name for name in map(str, self.samples) if RUN.search(name)]
        once, values = np.ones((1, len(self.samples))), set()
        for run in {match.group() for match in map(RUN.search, columns) if match}:
            of_run = {name: self.samples[RUN.sub(run, name)] for name in columns}
            alike = replace(self, samples=self.samples.assign(**of_run))
            values.add(float(alike.statistic()(once)[metric][0]))
        return len(values) > 1


Runs = dict[tuple[str, str], list[SeedPredictions]]  # by task and model, a run a seed


def _keys(samples: pd.DataFrame, columns: Sequence[str]) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(samples[list(columns)].astype(str))


def read_predictions(files: Sequence[Path]) -> Runs:
    """Read predictions.parquet files with the metrics.json beside them, by (task, model)."""
    runs: Runs = {}
    for file in files:
        record = read_metrics(file.parent / "metrics.json")
        name, model = str(record["benchmark"]), str(record["model"])
        if record["data"].get("refused"):  # an external file, which has no predictions
            continue
        try:
            benchmark = BENCHMARKS.named(name, recorded=True)
        except ValueError as error:
            raise InputError(f"{file.parent / 'metrics.json'}: benchmark {error}") from None
        if benchmark.statistic_module is None:
            raise InputError(
                f"{file.parent / 'metrics.json'}: benchmark is '{name}', which compares no rows"
            )
        samples = read_table(file, benchmark.key)
        run = SeedPredictions(
            benchmark=name,
            file=file,
            model=model,
            seed=int(record["seed"]),
            learnt=record["learnt"],
            fixed=record["learnt"] is None and not record.get("drawn", False),
            fingerprint=str(record["data"].get("fingerprint")),
            protocol={k: v for k, v in record["protocol"].items() if k not in benchmark.own},
            samples=samples.iloc[_keys(samples, benchmark.key).argsort()].reset_index(drop=True),
            behind={metric: int(entry["n"]) for metric, entry in record["metrics"].items()},
        )
        runs.setdefault((str(record["task"]), model), []).append(run)
    return runs


def why_not(runs: Sequence[SeedPredictions], of_one_task: bool = True) -> str | None:
    """Return the reason why runs were not measured alike, or None.

    They saw the same samples, of one task those of the same cohort; in what geometry is a model's
    own.
    """
    first = runs[0]
    if of_one_task and any(run.fingerprint != first.fingerprint for run in runs):
        return "measured on different data"
    for run in runs[1:]:
        names = sorted(
            name
            for name in (first.protocol.keys() | run.protocol.keys()) - {"geometry"}
            if first.protocol.get(name) != run.protocol.get(name)
        )
        if names:
            return f"measured with different protocols ({', '.join(names)})"
        if run.keys.has_duplicates or not run.keys.equals(first.keys):
            return "measured on different samples"
    return None


def paired_by_seed(
    runs: Sequence[SeedPredictions], reference_runs: Sequence[SeedPredictions]
) -> list[tuple[SeedPredictions, SeedPredictions]]:
    """The trainings of each seed that both have; what was not trained goes with all of them."""
    fixed = any(len(side) == 1 and side[0].fixed for side in (runs, reference_runs))
    return [(a, b) for a in runs for b in reference_runs if fixed or a.seed == b.seed]


def why_not_compared(
    runs_of_model: Sequence[SeedPredictions],
    runs_of_reference: Sequence[SeedPredictions],
    pairs: Sequence[tuple[SeedPredictions, SeedPredictions]],
    of_one_task: bool = True,
) -> str | None:
    """Return the reason why two models are not compared, or None."""
    if not runs_of_model or not runs_of_reference:
        return "no predictions of both"
    for run in (*runs_of_model, *runs_of_reference):
        if run.learnt is False:
            return f"{short_name(run.model)} has not learnt"
    return why_not([*runs_of_model, *runs_of_reference], of_one_task) or (
        None if pairs else "trained with different seeds"
    )


def times(scores: Resampled, factor: float) -> Resampled:
    """Every score multiplied."""
    value, replicates = scores.value.items(), scores.replicates.items()
    return Resampled({n: factor * v for n, v in value}, {n: factor * v for n, v in replicates})


class Inference:
    """Intervals and differences of runs, each of which is resampled once."""

    def __init__(self, runs: Runs, settings: PairedTestSettings) -> None:
        self.runs, self.settings = runs, settings
        self._resampled: dict[Path, tuple[Resampled, Supports]] = {}

    def resampled(self, run: SeedPredictions) -> tuple[Resampled, Supports]:
        """A run's scores on resamples of its samples, and the labels and patients behind them."""
        if run.file not in self._resampled:
            settings = self.settings
            clusters = imported(BENCHMARKS[run.benchmark].clusters)(run.samples, settings.unit)
            statistic = run.statistic()
            supports = Supports(statistic.labels, clusters)
            scores = resampled(statistic, clusters, settings.replicates, settings.seed, supports)
            self._resampled[run.file] = scores, supports
        return self._resampled[run.file]

    def cells(self) -> list[dict[str, Any]]:
        """The interval of every metric of each result of several trainings."""
        entries = []
        for (task, model), runs in self.runs.items():
            if len(runs) == 1 or why_not(runs) is not None:
                continue
            scores, (supports, *_) = zip(*map(self.resampled, runs), strict=True)
            count = supports.count
            metrics = {}
            for name in sorted(set.intersection(*(set(run_scores.value) for run_scores in scores))):
                behind = min(count, *(run.behind.get(name, count) for run in runs))
                ends = ends_over(scores, name, supports, behind, self.settings.level)
                if np.isfinite(ends[0]):
                    metrics[name] = dict(zip(("low", "high"), ends, strict=True))
            entries.append({"task": task, "model": model, "metrics": metrics})
        return entries

    def comparisons(self) -> list[dict[str, Any]]:
        """Every comparison in its order, with ``p_holm``: p corrected for all of them."""
        entries = [self.compare(comparison) for comparison in self.settings.comparisons]
        tested = [entry for entry in entries if entry["p"] is not None]
        for entry, p_holm in zip(tested, holm([entry["p"] for entry in tested]), strict=True):
            entry["p_holm"] = float(p_holm)
        return entries

    def compare(self, comparison: PairedComparison) -> dict[str, Any]:
        """A comparison; ``seeds`` are those that both models have, 0 where nothing was trained."""
        entry: dict[str, Any] = {**comparison.model_dump(), "seeds": 0, "reason": None}
        entry |= dict.fromkeys((*ENDS, *P, *SPREAD))
        task, margin = comparison.reference_task or comparison.task, comparison.margin
        runs_of_model = self.runs.get((comparison.task, comparison.model), [])
        runs_of_reference = self.runs.get((task, comparison.reference_model), [])
        pairs = paired_by_seed(runs_of_model, runs_of_reference)
        of_one_task = task == comparison.task
        reason = why_not_compared(runs_of_model, runs_of_reference, pairs, of_one_task)
        if reason is not None:
            return entry | {"reason": reason}
        metrics = (comparison.metric, comparison.reference_metric)
        factor = comparison.factor or 1.0
        scores = [
            self.resampled(a)[0].minus(times(self.resampled(b)[0], factor), *metrics)
            for a, b in pairs
        ]
        values = [difference.value.get(DIFFERENCE, np.nan) for difference in scores]
        if not np.isfinite(values).all():
            return entry | {"reason": "not defined for both"}
        count = self.resampled(runs_of_model[0])[1].count
        runs = [(run, name) for pair in pairs for run, name in zip(pair, metrics, strict=True)]
        behind: float = min(count, *(run.behind.get(name, count) for run, name in runs))
        # Resamples of a rare class are unbiased, and have as many degrees as it has patients.
        few = [self.resampled(run)[1].patients(name) for run, name in runs]
        rare = [patients for patients in few if patients is not None]
        behind = min([behind, *rare])
        interval = over_trainings_and_samples(
            scores, DIFFERENCE, behind, self.settings.level, bool(rare)
        )
        spread = spread_over(scores, DIFFERENCE, behind, bool(rare))
        if spread is not None:
            entry |= {"between": spread.between, "common": spread.common, "patients": behind}
        # Random weights have learnt nothing, but each seed has its own.
        several = max(len(runs_of_model), len(runs_of_reference)) > 1
        trained = several or not all(run.fixed for run, _ in runs)
        judged = len(pairs) >= LEAST_SEEDS
        if not trained:
            judged = not any(run.runs_differ(name) for run, name in runs)
            entry["reason"] = None if judged else "runs of a head differ"
        numbers = dict(
            zip(ENDS, (float(np.mean(values)), interval.low, interval.high), strict=True)
        )
        if judged:
            if margin is None:
                numbers["p"] = interval.p
            else:
                p = equivalence(scores, DIFFERENCE, behind, margin, bool(rare))
                numbers["p_equivalent"] = p
        finite = {name: number for name, number in numbers.items() if np.isfinite(number)}
        return entry | finite | {"seeds": len(pairs) * trained}


def tested(predictions: Sequence[Path], settings: PairedTestSettings) -> dict[str, Any]:
    """What is written of predictions: the protocol, intervals of cells, comparisons."""
    inference = Inference(read_predictions(predictions), settings)
    protocol = settings.model_dump(mode="json", exclude={"comparisons"})
    cells, comparisons = inference.cells(), inference.comparisons()
    return {"protocol": protocol, "cells": cells, "comparisons": comparisons}


def compare_rows(options: Namespace, settings: PairedTestSettings) -> None:
    content = tested(options.predictions, settings)
    write_sealed(options.output, content)
    log.info(
        "%d results of several seeds; %d comparisons, %d tested",
        *(len(content["cells"]), len(content["comparisons"])),
        sum(entry["p"] is not None for entry in content["comparisons"]),
    )
