"""A row: what takes a model's place in a task, and is scored by the same program.

A program asks for one of four things (:meth:`cxrflow.benchmarks.inputs.Inputs.ask`): ``features``
of images, ``scores`` of samples, ``maps`` or ``reports``. Its function of this name answers for a
model; a row answers by its method of this name, which takes the same arguments and returns the
same. So samples, metrics, intervals and controls are those of models. Which rows a benchmark has
is in its registry entry.
"""

from dataclasses import replace
from typing import Any

from cxrflow.benchmarks.result import Predictions

# What settings say of encoders: a row has one kind of feature, knows no prompts and sees images as
# they are. The result keeps the task's own settings.
WITHOUT_MODEL = {"features": "pooled", "start": "zeros", "augmentation": None}


class Row:
    """A row of one task.

    ``settings``: those that it follows; ``protocol``: what its result says beside the program's;
    ``knows_nothing``: it puts candidates in any order, whose scores are computed, not drawn.
    """

    def __init__(self, name: str, settings: Any) -> None:
        self.name, self.knows_nothing = name, name == "nothing"
        settings_without_model = {
            n: v for n, v in WITHOUT_MODEL.items() if n in type(settings).model_fields
        }
        self.settings = settings.model_copy(update=settings_without_model)
        self.protocol: dict[str, Any] = {}

    def restrict(self, inputs: Any) -> None:
        """Leave samples out of the cohort of ``inputs`` that it has no answer for."""

    def completed(self, predictions: Predictions) -> Predictions:
        """The predictions with what their result says of the row."""
        return replace(predictions, protocol={**predictions.protocol, **self.protocol})
