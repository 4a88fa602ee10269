"""Does a lower validation loss mean a better score? Each checkpoint of a training in a task.

ConVIRT section 6, Figure 5: the model of every fifth validation was scored in three tasks, and each
score is drawn over the negative validation loss. ``correlation`` is Pearson's of -loss and score.
The model folder says how many checkpoints there are; a training that stopped early has fewer. The
interval treats checkpoints as independent, which those of one training are not; an interval over
several trainings says more.
"""

import logging
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.atomic import read_object
from cxr_files.errors import InputError
from cxr_files.progress import progress
from cxrflow.benchmarks import runner
from cxrflow.benchmarks.checkpoints.settings import CheckpointSeriesSettings
from cxrflow.benchmarks.features import extract
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.result import CountedStatistic, Figure, Predictions, Result, png_of
from cxrflow.benchmarks.settings import FeatureSettings
from cxrflow.metrics.correlation import correlation

log = logging.getLogger("cxrflow")

FILE = "loss_and_score.png"
LEAST = 3  # checkpoints: two always correlate perfectly


def checkpoints(model: Path) -> list[Path]:
    """Return the checkpoints of a model, earliest first; InputError if there are too few."""
    folder = model / "checkpoints"
    series = sorted((p for p in folder.glob("*") if p.name.isdigit()), key=lambda p: int(p.name))
    if len(series) < LEAST:
        raise InputError(
            f"{folder}: {len(series)} checkpoints; expected {LEAST} or more, which "
            "training.checkpoint_validations keeps"
        )
    return series


def task_result(
    checkpoint: Path, options: Namespace, settings: CheckpointSeriesSettings, work: Path
) -> Result:
    """Score one checkpoint in the task; ``work`` is an empty folder."""
    benchmark = BENCHMARKS[settings.benchmark]
    task_settings = benchmark.settings.model_validate(
        {**settings.settings, "device": settings.device}
    )
    model, state = work / "model", work / "state"
    model.mkdir()
    state.mkdir()
    for path in checkpoint.iterdir():
        (model / path.name).symlink_to(path.resolve())
    # A checkpoint has weights and configuration; run.json is that of the training.
    (model / "run.json").symlink_to((checkpoint.parent.parent / "run.json").resolve())
    task_options = Namespace(**{**vars(options), "model": model, "state": state})
    if "features" in benchmark.inputs(task_settings):
        task_options.output = task_options.features = work / "features"
        extract(task_options, FeatureSettings(device=settings.device))
    inputs = runner.inputs_of(settings.benchmark, task_options, task_settings)
    return runner.score(settings.benchmark, inputs, task_settings)


def statistic(predictions: pd.DataFrame, settings: CheckpointSeriesSettings) -> CountedStatistic:
    """Pearson's correlation of the negative loss and the score."""
    loss, score = (predictions[name].to_numpy() for name in ("loss", "score"))
    return CountedStatistic(
        lambda counts: {"correlation": correlation(-loss, score, counts)}, lambda name: len(loss)
    )


def draw(
    predictions: pd.DataFrame, settings: CheckpointSeriesSettings, coefficient: float
) -> Figure:
    """Draw the loss over the steps, and the score over the negative loss."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8, 3.5), dpi=100, layout="constrained")
    course, cloud = canvas.subplots(1, 2)
    course.plot(predictions["step"], predictions["loss"], ".-", color="#1b5e8c")
    course.set(xlabel="step", ylabel="validation loss")
    points = cloud.scatter(-predictions["loss"], predictions["score"], c=predictions["step"], s=18)
    cloud.set(xlabel="− validation loss", ylabel=settings.metric)
    canvas.colorbar(points, ax=cloud, label="step")
    name = f"{settings.metric} of {settings.benchmark}".replace("_", " ")
    caption = (
        f"Checkpoints of one training: the validation loss, and {name} over its negative "
        f"(correlation {coefficient:.2f})."
    )
    return Figure(FILE, png_of(canvas), "Validation loss and score", caption)


def predict(inputs: ModelInputs, settings: CheckpointSeriesSettings) -> Predictions:
    """Score every checkpoint of the model in the task."""
    try:
        BENCHMARKS.named(settings.benchmark)
    except ValueError as error:
        raise InputError(f"settings: key 'benchmark' {error}") from None
    rows: list[dict[str, Any]] = []
    data: dict[str, Any] = {}
    series = checkpoints(inputs.options.model)
    for checkpoint in progress(series, len(series), "checkpoint", lambda path: 1):
        validated = read_object(checkpoint / "validation.json", ("step", settings.loss))
        with tempfile.TemporaryDirectory() as work:
            result = task_result(checkpoint, inputs.options, settings, Path(work))
        if settings.metric not in result.metrics:
            raise InputError(
                f"settings: key 'metric' is '{settings.metric}'; {settings.benchmark} gives "
                f"{', '.join(result.metrics)}"
            )
        loss = validated[settings.loss]
        value = result.metrics[settings.metric].value
        data = {name: result.data[name] for name in ("name", "synthetic", "fingerprint")}
        rows.append(
            {
                "sample_id": checkpoint.name,
                "subject_id": None,
                "step": int(validated["step"]),
                "loss": np.nan if loss is None else float(loss),
                "score": value,
            }
        )
        log.info("step %s: loss %s, %s %.4f", checkpoint.name, loss, settings.metric, value)
    table = pd.DataFrame(rows)
    predictions, dropped = drop_rows(
        table,
        {
            "the validation loss is not finite": ~np.isfinite(table["loss"]),
            "the score is not defined": ~np.isfinite(table["score"]),
        },
    )
    if len(predictions) < LEAST:
        raise InputError(
            f"{series[0].parent}: {len(predictions)} checkpoints with a finite validation loss and "
            f"a score; expected {LEAST} or more"
        )
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {**data, "checkpoints": len(predictions), "dropped": dropped},
        draw=lambda metrics: [draw(predictions, settings, metrics["correlation"].value)],
    )
