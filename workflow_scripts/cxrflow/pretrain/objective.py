"""What the training programs share: the objective of a batch is a weighted sum of *terms*.

A term reads *views* of the batch: what the program's encoders make of its images and texts. A view
is computed when a term first reads it, once for all terms. So a step is: the batch's rows, their
views, the terms' losses, the sum; batches and validation are here too. What is left to a program
is its encoders, its data and its views.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cxrflow.pretrain.inputs import mean_losses, moved, require_whole_ghosts
from cxrflow.pretrain.terms.settings import Terms
from cxrflow.training.order import batch_rows, batches_per_epoch, contrastive_batches
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses, Program


class Run(NamedTuple):
    """This process's part in a training."""

    seed: int
    device: torch.device
    processes: Processes


class Batch(NamedTuple):
    """Rows of a split, of all processes, and what is drawn for them."""

    rows: np.ndarray
    seed: int
    epoch: int
    processes: Processes

    @property
    def own(self) -> np.ndarray:
        """The rows of this process."""
        return self.processes.share(self.rows)


class Views:
    """A batch as the terms see it; programs add their views as cached properties."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @property
    def samples(self) -> int:
        """Rows of this process."""
        return len(self.batch.own)

    @property
    def tokens(self) -> int:
        """Real tokens among them, no padding."""
        return 0

    def gather(self, *parts: Tensor) -> tuple[list[Tensor], slice]:
        """The rows of all processes, and where this one's are: ``Processes.gather``."""
        return self.batch.processes.gather(len(self.batch.rows), *parts)


class Term:
    """One summand: what it reads, what it keeps from step to step, and its loss."""

    layers = 0  # last layers of the text encoder whose states of the intact text it reads
    masks: Any = None  # MaskedLanguageSettings, if it reads a masked text
    encoded = 1  # views of an image that it reads after the image encoder, from the first
    state: nn.Module | None = None  # what the engine saves: a head, a queue, another encoder

    def __init__(self, settings: Any, program: Any) -> None:
        self.settings = settings

    def loss(self, views: Any) -> Tensor:
        """This process's share of the term, without its weight; a scalar."""
        raise NotImplementedError

    def after_update(self) -> None:
        """Called when the weights have changed."""


class TermsProgram(Program):
    """Encoders and the terms they are trained by."""

    def __init__(
        self,
        settings: Any,
        run: Run,
        encoders: Mapping[str, nn.Module],
        ghost_batch: int | None = None,
    ) -> None:
        self.settings, self.run = settings, run
        self.terms = import_terms(settings.terms, self)
        self.encoded = max(term.encoded for term in self.terms.values())
        require_whole_ghosts(settings.training.batch_size, ghost_batch, run.processes)
        self.modules = {}
        parts = [(name, encoder, self.encoded) for name, encoder in encoders.items()]
        parts += [(n, term.state, term.encoded) for n, term in self.terms.items() if term.state]
        for name, module, views in parts:
            ghost = None if ghost_batch is None else ghost_batch * views
            self.modules |= moved({name: module}, run.device, run.processes, ghost)

    def objective(self, views: Any) -> Losses:
        """This process's share of the objective of a batch, from its views."""
        losses = {name: term.loss(views) for name, term in self.terms.items()}
        weighted = [self.terms[name].settings.weight * loss for name, loss in losses.items()]
        terms = {name: loss.detach() for name, loss in losses.items()}
        return Losses(reduce(torch.add, weighted), terms, views.samples, views.tokens)

    def after_update(self) -> None:
        """Tell the terms that the weights have changed."""
        for term in self.terms.values():
            term.after_update()


class SamplesProgram(TermsProgram):
    """Whole batches of samples, each compared with all others."""

    def __init__(
        self,
        settings: Any,
        run: Run,
        encoders: Mapping[str, nn.Module],
        ids: Sequence[str],
        validation: int,
        ghost_batch: int | None = None,
    ) -> None:
        super().__init__(settings, run, encoders, ghost_batch)
        self.ids, self.validation = ids, validation
        self.batches_per_epoch = batches_per_epoch(len(ids), settings.training.batch_size)

    def views(self, split: str, batch: Batch) -> Views:
        """A batch of ``train`` or of ``validate``, where nothing is augmented or shuffled."""
        raise NotImplementedError

    def _rows(self, epoch: int, index: int) -> np.ndarray:
        size = self.settings.training.batch_size
        return batch_rows(len(self.ids), size, self.run.seed, epoch, index)

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of a batch."""
        return [self.ids[row] for row in self._rows(epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """The objective of a batch."""
        batch = Batch(self._rows(epoch, index), self.run.seed, epoch, self.run.processes)
        return self.objective(self.views("train", batch))

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation samples in their own order."""
        processes = self.run.processes
        batches = contrastive_batches(self.validation, self.settings.training.batch_size)
        own = [Batch(rows, 0, 0, ALONE) for rows in batches[processes.rank :: processes.world]]
        return mean_losses([self.objective(self.views("validate", b)) for b in own], processes)


def import_terms(settings: Terms, program: TermsProgram) -> dict[str, Term]:
    """The terms that ``settings`` name, in their order; see :mod:`cxrflow.pretrain.terms`."""
    terms = {}
    for name, values in settings.named().items():
        module = import_module(f"cxrflow.pretrain.terms.{name}")
        terms[name] = getattr(module, name.title().replace("_", ""))(values, program)
    return terms
