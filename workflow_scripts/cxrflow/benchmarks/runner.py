"""Runs a benchmark: its program predicts, and what it predicted is measured.

``predict(inputs, settings)`` of a program returns :class:`~cxrflow.benchmarks.result.Predictions`;
``COLUMNS`` are those that it needs of the cohort's table. Where models are compared,
``statistic(table, settings)`` gives the metrics of a table of predictions, here and in paired
tests. A baseline and a file from elsewhere are rows that take the model's place
(:mod:`cxrflow.benchmarks.rows.row`).
"""

import logging
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.registry import BENCHMARKS, EXTERNAL, imported
from cxrflow.benchmarks.result import Predictions, Result, measure

log = logging.getLogger("cxrflow")


def inputs_of(benchmark: str, options: Namespace, settings: Any) -> Inputs:
    """Return the inputs of a benchmark, nothing of which is read yet."""
    entry = BENCHMARKS[benchmark]
    columns = getattr(imported(entry.program), "COLUMNS", ())
    file = "pairs.parquet" if entry.kind == "pairs" else "samples.parquet"
    if not entry.needs:
        return Inputs(options, file, columns)
    from cxrflow.benchmarks.model_inputs import ModelInputs

    return ModelInputs(options, file, columns, getattr(settings, "device", "auto"))


def score(
    benchmark: str,
    inputs: Inputs,
    settings: Any,
    reference: str | None = None,
    external: Path | None = None,
    least_share: float = 1.0,
) -> Result:
    """Return the result of a model, of a reference row of this name, or of an external file.

    ``least_share``: of the task's rows, what the file must hold.
    """
    entry = BENCHMARKS[benchmark]
    predict = imported(entry.program).predict
    row = None
    if external is not None:
        row = imported(EXTERNAL)(external, settings, least_share)
    elif reference is not None:
        row = imported(entry.baselines)(reference, settings)
    if row is None:
        predictions = predict(inputs, settings)
    else:
        inputs.row = row
        row.restrict(inputs)
        predictions = row.completed(predict(inputs, row.settings))
    if "cohort" in vars(inputs):  # it has been read
        data = {**inputs.cohort.data, **predictions.data}
        predictions = replace(predictions, data=data)
    result = measure(benchmark, predictions, settings, imported(entry.clusters))
    for name, metric in result.metrics.items():
        if "/" not in name:
            ends = (metric.value, metric.low, metric.high)
            log.info("%s %.3f (%.3f to %.3f), n %d", name, *ends, metric.n)
    return result


def refused(benchmark: str, inputs: Inputs, settings: Any, error: InputError) -> Result:
    """Return a result without metrics, which says why an external file is not scored.

    Raises:
        InputError: it is not the file that is at fault, but the cohort or its pixels.
    """
    data = inputs.cohort.data
    if inputs.has_pixels:
        _ = inputs.pixels
    predictions = Predictions(pd.DataFrame(columns=list(BENCHMARKS[benchmark].key)))
    predictions = replace(predictions, data={**data, "refused": str(error)})
    return measure(benchmark, predictions, settings)
