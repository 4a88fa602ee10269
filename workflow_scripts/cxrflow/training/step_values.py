"""The objective and its terms of a step, read without making a GPU wait for the host."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from cxrflow.training.processes import Processes


class StepValues:
    """Scalars of one step, summed over its parts and over processes.

    On a GPU they are copied to the host while it goes on with the next step; :meth:`read` waits for
    the copy alone.
    """

    def __init__(self, step: int, terms: Mapping[str, Tensor], processes: Processes) -> None:
        self.step, self.names = step, list(terms)
        values = processes.sum(torch.stack([one.detach().double() for one in terms.values()]))
        self._copied: torch.cuda.Event | None = None
        if values.is_cuda:
            self._values = torch.empty(len(values), dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record()
        else:
            self._values = values

    def read(self) -> dict[str, float]:
        """The values by name."""
        if self._copied is not None:
            self._copied.synchronize()
        return dict(zip(self.names, self._values.tolist(), strict=True))


def not_finite(values: Mapping[str, float]) -> str | None:
    """The first name whose value is infinite or not a number."""
    return next((name for name, value in values.items() if not math.isfinite(value)), None)
