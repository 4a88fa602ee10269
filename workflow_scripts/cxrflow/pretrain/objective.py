"""What the training programs share: the objective of a batch is a weighted sum of *terms*.

A term reads *views* of the batch: what the program's encoders make of its images and texts. A view
is computed when a term first reads it, once for all terms. So a step is: the batch's rows, their
views, the terms' losses, the sum; batches and validation are here too. What is left to a program
is its encoders, its data and its views.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cxrflow.encoders.word_aggregation import Words
from cxrflow.errors import InputError
from cxrflow.pretrain.chance import Answers, Validated, Validation
from cxrflow.pretrain.inputs import move, require_whole_ghosts
from cxrflow.pretrain.terms.settings import Terms
from cxrflow.training.order import contrastive_batches, drawn_batches, even_batches
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses, Program
from cxrflow.training.sampler import choose_sampler
from cxrflow.training.samples import SampleTable

if TYPE_CHECKING:
    from cxrflow.similarity.similarity import Similarity


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
    samples: SampleTable = SampleTable(())  # of the split

    @property
    def own(self) -> np.ndarray:
        """The rows of this process."""
        return self.processes.share(self.rows)

    @property
    def labels(self) -> Tensor:
        """Labels of this process's rows, [N, C] or what the program trains on; on the CPU."""
        if self.samples.labels is None:
            raise InputError("a term reads labels, but the cohort has none; expected its `labels`")
        return torch.from_numpy(self.samples.labels[self.own])

    @property
    def groups(self) -> np.ndarray:
        """Group of each of this process's rows, [N]."""
        if self.samples.groups is None:
            raise InputError("a term reads groups, but the program's samples have none")
        return self.samples.groups[self.own]

    def gather(self, *parts: Tensor) -> tuple[list[Tensor], slice]:
        """The rows of all processes, and where this one's are: ``Processes.gather``."""
        return self.processes.gather(len(self.rows), *parts)

    def gather_words(self, words: Words) -> Words:
        """The words of the texts of all processes, padded to the longest of them."""
        (lengths,), _ = self.gather(torch.tensor(words.lengths))
        behind = int(lengths.max()) - words.word_BWD.shape[1]
        (word_BWD,), _ = self.gather(nn.functional.pad(words.word_BWD, (0, 0, 0, behind)))
        return Words(word_BWD, lengths.tolist())


class Views:
    """A batch as the terms see it; programs add what their encoders make of it, computed once."""

    tokens = 0  # real ones of this process, no padding

    def __init__(self, batch: Batch) -> None:
        self.batch, self.samples = batch, len(batch.own)


class Term(nn.Module, ABC):
    """One summand: what it reads, and its loss. What it keeps from step to step is saved."""

    layers = 0  # last layers of the text encoder whose states of the intact text it reads
    masks: Any = None  # MaskedLanguageSettings, if it reads a masked text
    encoded = 1  # views of an image that it reads after the image encoder, from the first
    compares = True  # samples of a batch with each other: validated on whole batches alone

    def __init__(self, settings: Any, program: Any) -> None:
        super().__init__()
        self.settings = settings

    @abstractmethod
    def loss(self, views: Any) -> Tensor:
        """This process's share of the term, without its weight; a scalar."""

    def answers(self, views: Any) -> Answers | None:
        """What it chooses from in a validation batch; None: its loss at chance is not known."""
        return None

    def similarity(self) -> "Similarity | None":
        """How the model compares images with texts afterwards; None: not by this term."""
        return None

    def after_update(self) -> None:
        """Called without gradients when the weights have changed."""


class TermsProgram(Program):
    """Encoders and the terms they are trained by; batches are of whole samples.

    ``samples``: those of ``train`` and ``validate``, with their attributes.
    """

    def __init__(
        self,
        settings: Any,
        run: Run,
        encoders: Mapping[str, nn.Module],
        samples: Mapping[str, SampleTable],
        ghost_batch: int | None = None,
    ) -> None:
        self.settings, self.run, self.samples = settings, run, samples
        training, world = settings.training, run.processes.world
        self.sampler = choose_sampler(
            training.sampler, samples["train"], training.batch_size, run.seed, world
        )
        self.batches_per_epoch = self.sampler.batches_per_epoch
        self.terms = import_terms(settings.terms, self)
        self.encoded = max(term.encoded for term in self.terms.values())
        self.modules = {**encoders, **self.terms}
        self._record: dict[str, Any] = {}
        require_whole_ghosts(settings.training.batch_size, ghost_batch, run.processes)
        for name, module in self.modules.items():
            views = self.terms[name].encoded if name in self.terms else self.encoded
            move(module, run.device, run.processes, ghost_batch and ghost_batch * views)

    def views(self, split: str, batch: Batch) -> Views:
        """A batch of ``train``, or of ``validate`` as it is; :meth:`losses` and the like ask."""
        raise NotImplementedError

    def objective(self, views: Any) -> Losses:
        """This process's share of the objective of a batch, from its views."""
        losses = {name: term.loss(views) for name, term in self.terms.items()}
        weighted = [self.terms[name].settings.weight * loss for name, loss in losses.items()]
        terms = {name: loss.detach() for name, loss in losses.items()}
        return Losses(reduce(torch.add, weighted), terms, views.samples, views.tokens)

    @torch.no_grad()
    def after_update(self) -> None:
        """Tell the terms that the weights have changed."""
        for term in self.terms.values():
            term.after_update()

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of a batch."""
        return [self.samples["train"].ids[row] for row in self.sampler.rows(epoch, index)]

    def losses(self, epoch: int, index: int, part: int, parts: int) -> Losses:
        """The objective of a batch."""
        rows, (seed, _, processes) = self.sampler.rows(epoch, index), self.run
        batch = Batch(rows, seed, epoch, processes, self.samples["train"])
        return self.objective(self.views("train", batch))

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation samples: on all, unless a term compares them."""
        processes, training = self.run.processes, self.settings.training
        compare = any(term.compares for term in self.terms.values())
        cut = contrastive_batches if compare else even_batches
        samples = self.samples["validate"]
        batches = cut(len(samples), training.batch_size)
        batches = drawn_batches(batches, training.validation_batches)
        own = [
            Batch(rows, 0, 0, ALONE, samples) for rows in batches[processes.rank :: processes.world]
        ]
        return self.validated(self.views("validate", batch) for batch in own)

    def validated(self, batches: Iterable[Any]) -> dict[str, float]:
        """The mean objective of this process's validation batches and those of all others."""
        found = (
            Validated(
                self.objective(views),
                {name: term.answers(views) for name, term in self.terms.items()},
            )
            for views in batches
        )
        validation = Validation(found, self.run.processes)
        self._record = validation.record(list(self.terms))
        return validation.means()

    def validation_record(self) -> dict[str, Any]:
        """Whether each term has learnt, by the last validation."""
        return self._record


def import_terms(settings: Terms, program: TermsProgram) -> dict[str, Term]:
    """The terms that ``settings`` name, in their order; see :mod:`cxrflow.pretrain.terms`."""
    terms = {}
    for name, values in settings.named().items():
        module = import_module(f"cxrflow.pretrain.terms.{name}")
        terms[name] = getattr(module, name.title().replace("_", ""))(values, program)
    return terms
