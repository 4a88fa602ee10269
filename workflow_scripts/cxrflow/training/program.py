"""What a training program gives to the engine. The engine knows no model, a program no loop."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from torch import Tensor, nn


class Losses(NamedTuple):
    """One batch's objective."""

    total: Tensor  # scalar; the engine calls backward on it
    terms: dict[str, Tensor]  # scalars by name, detached, for the log
    samples: int
    tokens: int  # real tokens, not padding


class Program(Protocol):
    """A model, its data and its objective."""

    modules: dict[str, nn.Module]  # everything with parameters or buffers
    batches_per_epoch: int

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """Objective of part ``part`` of ``parts`` of batch ``index`` of ``epoch``.

        A pure function of its arguments, the weights and torch's random state, which the engine
        seeds for every step: that is what makes a resumed run equal to an undisturbed one.
        """

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of that batch's samples, for the message when its loss is not finite."""

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation split under the key ``loss``, its terms beside it."""

    def export(self, folder: Path) -> None:
        """Write the trained model's files."""
