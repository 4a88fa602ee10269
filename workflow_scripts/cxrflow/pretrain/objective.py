"""The objective of a training: a weighted sum of terms, each of which reads views of the batch.

A step is the rows of a batch, their views (:mod:`cxrflow.pretrain.views`), the losses of the terms
and their sum. A program adds its encoders, its data and its views.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from cxrflow.errors import InputError
from cxrflow.pretrain.chance import Answers, Validated, Validation
from cxrflow.pretrain.inputs import move, require_whole_ghosts
from cxrflow.pretrain.terms.settings import Terms
from cxrflow.pretrain.views import Batch, Encoders, Needs, Views
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses, Program
from cxrflow.training.sampler import (
    choose_sampler,
    contrastive_batches,
    drawn_batches,
    even_batches,
)
from cxrflow.training.samples import SampleTable

if TYPE_CHECKING:
    from cxrflow.similarity.similarity import Similarity


class Run(NamedTuple):
    """This process's part in a training."""

    seed: int
    device: torch.device
    processes: Processes


class Term(nn.Module, ABC):
    """One summand of an objective. What it keeps from step to step is saved with the model."""

    needs = Needs()  # the views that it reads
    compares: bool  # it compares the samples of a batch, and is validated on whole batches alone

    def __init__(self, settings: Any, encoders: Encoders) -> None:
        super().__init__()
        self.settings = settings

    @abstractmethod
    def loss(self, views: Views) -> Tensor:
        """This process's share of the term, without its weight; a scalar."""

    def answers(self, views: Views) -> Answers | None:
        """The answers it chooses from in a validation batch; None: no known loss at chance."""
        return None

    def similarity(self) -> "Similarity | None":
        """How the model compares images with texts afterwards; None: not by this term."""
        return None

    def after_update(self) -> None:
        """Called without gradients when the weights have changed."""


class TermsProgram(Program):
    """Encoders and the terms they are trained by; batches are of whole samples.

    Attributes:
        samples: those of ``train`` and ``validate``, with their attributes.
        terms: by name, in the order in which they are computed and summed.
        needs: the views that they read, together.
        text_names: the text passes that the program has.
        stacked: it encodes the views of an image as neighbours of one batch.
    """

    text_names: Collection[str] = ()
    stacked = False

    def __init__(
        self,
        settings: Any,
        run: Run,
        encoders: Mapping[str, nn.Module],
        samples: Mapping[str, SampleTable],
        ghost_batch: int | None = None,
        vocabulary: VocabularyInfo | None = None,
    ) -> None:
        self.settings, self.run, self.samples = settings, run, samples
        training, world = settings.training, run.processes.world
        self.sampler = choose_sampler(
            training.sampler, samples["train"], training.batch_size, run.seed, world
        )
        self.batches_per_epoch = self.sampler.batches_per_epoch
        by_name: dict[str, Any] = {"vocabulary": vocabulary, **encoders}
        image: Any = by_name.get("image")
        trunk: Any = by_name.get("trunk") if image is None else image.encoder
        text: Any = by_name.get("text")
        readable = Encoders(
            samples["train"], trunk, image, text, by_name["vocabulary"], ghost_batch
        )
        self.terms = import_terms(settings.terms, readable)
        self.needs = Needs.of_all(term.needs for term in self.terms.values())
        require_texts(self.terms, self.text_names)
        self.modules = {**encoders, **self.terms}
        self._record: dict[str, Any] = {}
        require_whole_ghosts(settings.training.batch_size, ghost_batch, run.processes)
        for name, module in self.modules.items():
            # Statistics are of as many samples as ever, where a batch holds several views of each.
            views = self.terms[name].needs.images if name in self.terms else self.needs.images
            views = max(1, views) if self.stacked or name in self.terms else 1
            move(module, run.device, run.processes, ghost_batch and ghost_batch * views)

    def views(self, split: str, batch: Batch) -> Views:
        """A batch of ``train``, or of ``validate`` as it is; :meth:`losses` and the like ask."""
        raise NotImplementedError

    def objective(self, views: Views) -> Losses:
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

    def losses(self, epoch: int, index: int, micro_batch: int, micro_batches: int) -> Losses:
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
        batches_here = [
            Batch(rows, 0, 0, ALONE, samples) for rows in batches[processes.rank :: processes.world]
        ]
        return self.validated(self.views("validate", batch) for batch in batches_here)

    def validated(self, batches: Iterable[Views]) -> dict[str, float]:
        """The mean objective of this process's validation batches and those of all others."""
        validated = (
            Validated(
                self.objective(views),
                {name: term.answers(views) for name, term in self.terms.items()},
            )
            for views in batches
        )
        validation = Validation(validated, self.run.processes)
        self._record = validation.record(list(self.terms))
        return validation.means()

    def validation_record(self) -> dict[str, Any]:
        """The verdict on each term, learnt or near chance, by the last validation."""
        return self._record


def import_terms(settings: Terms, encoders: Encoders) -> dict[str, Term]:
    """Make the terms that ``settings`` name, in their order; see :mod:`cxrflow.pretrain.terms`."""
    terms = {}
    for name, values in settings.named().items():
        module = import_module(f"cxrflow.pretrain.terms.{name}")
        terms[name] = getattr(module, name.title().replace("_", ""))(values, encoders)
    return terms


def require_texts(terms: Mapping[str, Term], names: Collection[str]) -> None:
    """Raise an InputError unless the program has the text passes that its terms read."""
    for name, term in terms.items():
        missing = [text for text in term.needs.texts if text not in names]
        if missing:
            raise InputError(
                f"terms.{name} reads the text '{missing[0]}', which this program does not have; "
                f"it has {', '.join(names) or 'none'}"
            )
