"""Validation decides which weights are kept, when to stop, and when the rate falls."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cxr_files.errors import InputError
from cxrflow.training.settings import TrainingSettings


@dataclass
class Monitor:
    """How a run's monitored value has gone so far; part of the saved state, field by field."""

    best: float = math.inf  # its negative where more is better
    step: int = 0  # after which the best was found; 0 = never
    failures: int = 0  # validations in a row without a better one
    waited: int = 0  # those of them since the rate last fell
    plateaus: int = 0  # how often it fell
    record: dict[str, Any] = field(default_factory=dict)  # of the weights to be kept

    def take(self, values: Mapping[str, float], step: int, settings: TrainingSettings) -> bool:
        """Take in what the validation after ``step`` updates gave; whether it is the best so far.

        InputError if the monitored value is not among ``values``, or the loss is no finite number;
        a score may be undefined for a while.
        """
        stopping = settings.stopping
        if stopping.monitor not in values:
            raise InputError(
                f"settings: key 'training.stopping.monitor' is {stopping.monitor!r}; expected one "
                f"of what this program's validation gives: {', '.join(values)}"
            )
        if not math.isfinite(values.get("loss", 0.0)):
            raise InputError(
                f"the loss of the validation after step {step} is {values['loss']}; expected a "
                "finite number"
            )
        value = values[stopping.monitor] * (1 if stopping.mode == "min" else -1)
        if value < self.best:
            self.best, self.step, self.failures, self.waited = value, step, 0, 0
            return True
        self.failures, self.waited = self.failures + 1, self.waited + 1
        if self.waited == settings.schedule.patience:
            self.waited, self.plateaus = 0, self.plateaus + 1
        return False

    def out_of_patience(self, settings: TrainingSettings) -> bool:
        """True if the run is to stop now."""
        patience = settings.stopping.patience
        return patience is not None and self.failures >= patience
