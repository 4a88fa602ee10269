"""Does a lower validation loss mean a better score? Each checkpoint of a training in a task.

ConVIRT section 6, Figure 5: every fifth validation the model was kept and put to three tasks; each
score is drawn over the negative validation loss. ``correlation`` is Pearson's, of -loss and score.
How many checkpoints there are is read from the model folder, so that a training that stopped early
has fewer. Its interval is over checkpoints as if they were independent, which those of one training
are not: that over several trainings says more.
"""

import importlib
import logging
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxrflow.benchmarks.checkpoints.settings import CheckpointSeriesSettings
from cxrflow.benchmarks.features import extract
from cxrflow.benchmarks.inputs import drop_rows
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.result import Figure, Result, estimates, png_of
from cxrflow.benchmarks.settings import FeatureSettings
from cxrflow.compute.progress import progress
from cxrflow.errors import InputError
from cxrflow.files.atomic import read_object
from cxrflow.metrics.correlation import correlation
from cxrflow.metrics.intervals import Floats, Statistic

log = logging.getLogger("cxrflow")

FILE = "loss_and_score.png"
LEAST = 3  # checkpoints


def checkpoints(model: Path) -> list[Path]:
    """The checkpoints of a model, earliest first; InputError when there are too few."""
    folder = model / "checkpoints"
    found = sorted((p for p in folder.glob("*") if p.name.isdigit()), key=lambda p: int(p.name))
    if len(found) < LEAST:
        raise InputError(
            f"{folder}: {len(found)} checkpoints; expected {LEAST} or more, which "
            "training.checkpoint_validations keeps"
        )
    return found


def task_result(
    checkpoint: Path, options: Namespace, settings: CheckpointSeriesSettings, work: Path
) -> Result:
    """The result of one checkpoint in the task; ``work`` is a folder of its own."""
    benchmark = BENCHMARKS[settings.benchmark]
    asked = benchmark.settings.model_validate({**settings.settings, "device": settings.device})
    model, state = work / "model", work / "state"
    model.mkdir()
    state.mkdir()
    for part in checkpoint.iterdir():
        (model / part.name).symlink_to(part.resolve())
    # What a checkpoint shares with the model that it is one of.
    (model / "run.json").symlink_to((checkpoint.parent.parent / "run.json").resolve())
    given = Namespace(**{**vars(options), "model": model, "state": state})
    if "features" in benchmark.inputs(asked):
        given.output = given.features = work / "features"
        extract(given, FeatureSettings(device=settings.device))
    program = importlib.import_module(f"cxrflow.benchmarks.{benchmark.program}")
    found: Result = program.score(given, asked)
    return found


def statistics(predictions: pd.DataFrame, settings: CheckpointSeriesSettings) -> Statistic:
    """The correlation of the negative loss and the score."""
    loss, score = (predictions[name].to_numpy() for name in ("loss", "score"))

    def metrics(counts: Floats) -> dict[str, Floats]:
        return {"correlation": correlation(-loss, score, counts)}

    return metrics


def draw(predictions: pd.DataFrame, settings: CheckpointSeriesSettings, words: str) -> Figure:
    """The loss over the steps, and the score over the negative loss."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8, 3.5), dpi=100, layout="constrained")
    course, cloud = canvas.subplots(1, 2)
    course.plot(predictions["step"], predictions["loss"], ".-", color="#1b5e8c")
    course.set(xlabel="step", ylabel="validation loss")
    points = cloud.scatter(-predictions["loss"], predictions["score"], c=predictions["step"], s=18)
    cloud.set(xlabel="− validation loss", ylabel=settings.metric)
    canvas.colorbar(points, ax=cloud, label="step")
    caption = f"Checkpoints of one training: the validation loss, and {words}."
    return Figure(FILE, png_of(canvas), "Validation loss and score", caption)


def score(options: Namespace, settings: CheckpointSeriesSettings) -> Result:
    if settings.benchmark not in BENCHMARKS:
        raise InputError(
            f"settings: key 'benchmark' is '{settings.benchmark}'; expected one of "
            f"{', '.join(BENCHMARKS)}"
        )
    rows: list[dict[str, Any]] = []
    data: dict[str, Any] = {}
    found = checkpoints(options.model)
    for checkpoint in progress(found, len(found), "checkpoint", lambda path: 1):
        validated = read_object(checkpoint / "validation.json", ("step", settings.loss))
        with tempfile.TemporaryDirectory() as work:
            result = task_result(checkpoint, options, settings, Path(work))
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
    statistic = statistics(predictions, settings)
    metrics = estimates(statistic, predictions, len(predictions), settings.intervals)
    value = metrics["correlation"].value
    words = f"{settings.metric} of {settings.benchmark} over its negative (correlation {value:.2f})"
    return Result(
        "checkpoint_series",
        {**data, "checkpoints": len(predictions), "dropped": dropped},
        settings.model_dump(mode="json", exclude={"device"}),
        metrics,
        predictions,
        [draw(predictions, settings, words.replace("_", " "))],
    )
