"""What a benchmark asks of the rows of its cohort: it runs until it asks for a model or a picture.

Called when the cohort is built (:mod:`cxrflow.data.cohorts.demands`). Before a benchmark asks, it
chooses its parts and classes and refuses what cannot be scored; so its own program says what it
needs, and one from outside of the package as well.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.data.cohorts.demands import UnmetError, other_split
from cxrflow.data.cohorts.unread import Asked, EveryImage, NotRead

LEARNT = "train_split"
PARTS = ("split", "validation_split", "baseline_split", "threshold_part")


def require_rows(
    folder: Path, benchmark: str, values: dict[str, Any], learnt: bool = False
) -> None:
    """Read the rows of a task. ``learnt``: the cohort is the second one, which is learnt from.

    Raises:
        InputError: as the evaluation would; :class:`UnmetError` where a line mends it.
    """
    entry = BENCHMARKS[benchmark]
    settings: Any = entry.settings.model_validate(values)
    if "geometry" in type(settings).model_fields:  # a picture's, and none is read
        settings = settings.model_copy(update={"geometry": None})
    program = imported(entry.program)
    file = "pairs.parquet" if entry.kind == "pairs" else "samples.parquet"
    folders = {"cohort": folder} | ({} if entry.training else {"training": None})
    inputs = Rows(_Options(**folders), file, getattr(program, "COLUMNS", ()))
    names = [LEARNT] if learnt else [*PARTS, *([] if entry.training else [LEARNT])]
    splits = [getattr(settings, name, None) for name in names]
    splits += [] if learnt else getattr(settings, "parts", [])
    try:
        for split in dict.fromkeys(splits):
            if split is not None:
                inputs.rows(split)
    except InputError as error:
        raise UnmetError(str(error), other_split(folder)) from None
    if learnt:
        return
    try:
        if hasattr(settings, "findings") and LEARNT in type(settings).model_fields:
            _require_findings(inputs, settings)
        program.predict(inputs, settings)
    except Asked:
        return


def _require_findings(inputs: "Rows", settings: Any) -> None:
    """Of temporal classification, which asks for its pixels first."""
    from cxrflow.benchmarks.temporal.temporal_classification import splits_of, usable

    names = (settings.train_split, settings.validation_split, settings.split)
    pixels: Any = inputs.pixels
    samples, _ = usable(inputs, pixels, settings.findings, names)
    classes = inputs.cohort.classes
    reasons = {
        finding: splits_of(samples, finding, pixels, classes, settings, 0)
        for finding in settings.findings
    }
    if all(isinstance(reason, str) for reason in reasons.values()):
        raise InputError(f"{inputs.source}: no finding is left: {reasons}")


class EveryFeature(NotRead):
    """Stands for the features of a model, which has seen every image."""

    geometry = pixels = ""

    def rows(self, samples: pd.DataFrame) -> NDArray[np.int64]:
        """The row of each sample's image, int64."""
        return np.arange(len(samples))


class Rows(Inputs):
    """The inputs of a task of which nothing but the cohort is there."""

    knows_nothing = False

    def __init__(self, options: Namespace, file: str, columns: Any) -> None:
        super().__init__(options, file, columns)
        unread: Any = NotRead()
        self.row = self.model = self.text_model = self.image = self.device = unread
        self.pixels, self.features = EveryImage(), EveryFeature()

    def load(self) -> None:
        """There is no model."""

    def ask(self, model_function: Any, *arguments: Any) -> Any:
        """Nobody answers."""
        raise Asked(model_function.__name__)


class _Options(NotRead, Namespace):
    """Paths of which none but the cohort's is known."""
