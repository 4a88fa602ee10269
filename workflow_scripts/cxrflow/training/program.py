"""The interface of a training program. The engine knows no model, a program no loop."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn


class Losses(NamedTuple):
    """One batch's objective."""

    total: Tensor  # scalar; the engine calls backward on it
    terms: dict[str, Tensor]  # scalars by name, detached, for the log
    samples: int
    tokens: int  # real tokens, not padding


class ParameterRule(NamedTuple):
    """How parameters whose names (``<module>.<parameter>``) fit a pattern of fnmatch are trained.

    Of several rules of a program the first that fits counts.
    """

    pattern: str
    rate: float = 1.0  # factor on the learning rate
    decay: bool | None = None  # None: on matrices and kernels, not on biases and normalisation
    rest: int = 0  # first epochs in which they are left as they are


class Program(Protocol):
    """A model, its data and its objective."""

    modules: dict[str, nn.Module]  # everything with parameters or buffers
    batches_per_epoch: int
    parameter_rules: Sequence[ParameterRule] = ()
    steady: bool = True  # as many images in every batch
    skips: bool = False  # in some steps parameters that are trained have no gradient
    validation_state: dict[str, Any] = {}  # of earlier validations, for later ones; it is saved

    def prepare(self, epoch: int, index: int) -> Any:
        """What :meth:`losses` reads of batch ``index`` of ``epoch`` that needs no weights.

        A pure function of its arguments: it may run in another thread, beside an earlier step, so
        it draws from no random state of torch or NumPy and exchanges nothing with other processes.
        """
        return epoch, index

    def losses(self, batch: Any, micro_batch: int, micro_batches: int) -> Losses:
        """Objective of part ``micro_batch`` of ``micro_batches`` of a prepared batch.

        A pure function of its arguments, the weights and torch's random state, which the engine
        seeds for every step: that is what makes a resumed run equal to an undisturbed one.
        """

    def settle(self, room: int) -> None:
        """Called on a GPU after the first step of a process: steps leave ``room`` bytes free."""
        del room  # for programs with images that may stay there

    def after_update(self) -> None:
        """Called when the weights have changed: a method's own state follows them.

        A momentum encoder, a queue or prototypes live in buffers, or in parameters without
        gradient, of ``modules``, so that they are saved with them. They are the same in all
        processes: what comes from a batch is gathered first. Runs without gradients.
        """

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of that batch's samples, for the message when its loss is not finite."""

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation split under the key ``loss``, its terms beside it.

        Other values may stand with them, such as a task's score: ``stopping.monitor`` names the
        one that counts. They are the same in all processes.
        """

    def validation_record(self) -> dict[str, Any]:
        """The entries of run.json on the last validation, if it is that of the kept weights."""
        return {}

    def export(self, folder: Path) -> None:
        """Write the trained model's files."""
