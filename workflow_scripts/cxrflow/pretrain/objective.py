"""The objective of a training: a weighted sum of terms, each of which reads views of the batch.

A step is the rows of a batch (:class:`Batch`), their views (:class:`Views`), the losses of the
terms (:class:`Term`) and their sum (:class:`TermsProgram`); ``training/step.py`` updates the
weights. A program adds its encoders, its data and its views. A view is computed when a term first
reads it, once for all terms. Tensors lie on the device of the training unless noted.

Shapes: N samples of this process, P width of the joint space, F features of a trunk, h x w grid,
L tokens of the longest text, D width of the text encoder, M masked and T written tokens, V pieces
of the vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent_values
from cxrflow.pretrain.inputs import Run, move, require_whole_ghosts
from cxrflow.pretrain.terms import term_class
from cxrflow.pretrain.terms.base_settings import Needs
from cxrflow.pretrain.validation.permutation import Comparisons, Validated, Validation
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.program import Losses, ParameterRule, Program
from cxrflow.training.sampler import (
    choose_sampler,
    contrastive_batches,
    drawn_batches,
    even_batches,
)
from cxrflow.training.samples import SampleTable

# For type checkers alone: an edit of the text encoder retrains no program on images alone.
if TYPE_CHECKING:
    from cxrflow.encoders.cxr_bert import CXRBert
    from cxrflow.encoders.image_encoder import Frames, ImageEncoder, ImageOutput, ImageTrunk
    from cxrflow.encoders.word_aggregation import Words
    from cxrflow.pretrain.resident_images import SplitImages
    from cxrflow.similarity.similarity import Similarity


class Batch(NamedTuple):
    """Rows of a split, of all processes, and the key of their random numbers."""

    rows: np.ndarray
    seed: int
    epoch: int
    processes: Processes
    samples: SampleTable = SampleTable(())  # of the split
    number: int = 0  # of the batch in its epoch, from 0
    batches: int = 1  # in an epoch

    @property
    def own(self) -> np.ndarray:
        """The rows of this process, [N]."""
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

    def gather(self, *shares: Tensor) -> tuple[list[Tensor], slice]:
        """The rows of all processes, and where this one's are: ``Processes.gather``."""
        return self.processes.gather(len(self.rows), *shares)

    def gather_words(self, words: "Words") -> "Words":
        """The words of the texts of all processes, padded to the longest of them."""
        (lengths,), _ = self.gather(torch.tensor(words.lengths))
        behind = int(lengths.max()) - words.word_BWD.shape[1]
        (word_BWD,), _ = self.gather(nn.functional.pad(words.word_BWD, (0, 0, 0, behind)))
        return words._replace(word_BWD=word_BWD, lengths=lengths.tolist())


@dataclass(frozen=True)
class Encoders:
    """The argument of a term's constructor; None where the program has no such thing.

    Attributes:
        samples: those of training, with the classes of their labels.
        trunk: of the image encoder; ``trunk.features`` is F.
        image: the image encoder; ``image.settings.projection`` is P.
        text: the text encoder.
        vocabulary: of its word pieces.
        ghost_batch: samples whose batch statistics are taken together; None: the whole batch.
    """

    samples: SampleTable
    trunk: "ImageTrunk"
    image: "ImageEncoder"
    text: "CXRBert"
    vocabulary: VocabularyInfo
    ghost_batch: int | None


class MaskedText(NamedTuple):
    """The predicted words of masked texts, and the size of the whole batch."""

    logits: Tensor  # [M, V]
    targets: Tensor  # [M]
    tokens: int  # masked ones, of all processes
    sequences: int  # texts, of all processes
    texts: Tensor | None = None  # int64 [M], on the CPU: of this process's texts, the one of each


@dataclass
class TextOutput:
    """N texts after the encoder."""

    encoder: "CXRBert"
    ids: Tensor  # int64 [N, L], intact, on the CPU
    mask: Tensor  # int64 [N, L], 1 where there is a token; on the CPU
    states: list[Tensor]  # [N, L, D] of the last layers, the last one last; 0 at padding
    masked: MaskedText | None

    @cached_property
    def projected(self) -> Tensor:
        """[N, P], pooled and projected to the joint space; not normalised."""
        return self.encoder.project(self.states[-1], self.mask)


class WrittenText(NamedTuple):
    """The predicted tokens of reports that a decoder writes."""

    logits: Tensor  # [T, V]
    targets: Tensor  # [T]
    tokens: int  # predicted ones, of all processes
    reports: Tensor  # int64 [T], on the CPU: of this process's reports, the one of each
    attended: Tensor | None = None  # where a captioner looked; see objectives/doubly_stochastic.py


class Computed(dict[Any, Any]):
    """Views by name or number, each computed when it is first read."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: Any) -> Any:
        self[key] = self._compute(key)
        return self[key]


class Views:
    """A batch as terms see it; a program defines those that it has.

    Attributes:
        samples: N, the samples of this process.
        tokens: tokens of the texts read so far, without padding.
        images: by number, augmented views after the image encoder; in training on images alone
            the trunk's patches. ``projected_global`` [N, P] and ``projected_patches`` [N, h, w, P]
            are of length 1, ``unnormalised_patches`` [N, h, w, P] are not, ``pooled`` [N, F] are
            the trunk's features, not projected.
        texts: by name, passes of the texts through the text encoder.
        masked: the words that are predicted, an entry for each text of a sample.
        equal_texts: bool [all N, all N], pairs that are no negatives, as their texts are one text.
    """

    tokens: int = 0
    equal_texts: Tensor | None = None
    images: "Mapping[int, ImageOutput]"
    texts: MutableMapping[str, TextOutput]
    masked: list[MaskedText]

    def __init__(self, batch: Batch) -> None:
        self.batch, self.samples = batch, len(batch.own)

    def prepare(self, needs: Needs) -> None:
        """Compute what ``needs`` read that hangs on no weights; in training, ahead of the step.

        See ``Program.prepare`` for what it may not do.
        """

    @property
    def written(self) -> WrittenText:
        """The tokens that a decoder predicts."""
        raise _absent("reports that a decoder writes")

    def written_beside(self, images: Tensor) -> WrittenText:
        """The same tokens beside this process's images in another order, int64 [N]."""
        raise _absent("reports that a decoder writes")

    def training_texts(self, rows: np.ndarray) -> TextOutput:
        """The text encoder's output for this process's share of texts of training samples."""
        raise _absent("texts of training samples")

    def pixels(self, number: int) -> "Frames[Tensor]":
        """View ``number`` of each image: float32 [N, 1 or 3, H, W] in [0, 1], not standardised."""
        raise _absent("pixels of images")


def _absent(view: str) -> InputError:
    return InputError(f"a term reads {view}, which this training program has not")


class Term(nn.Module, ABC):
    """One summand of an objective. What it keeps from step to step is saved with the model."""

    compares: bool  # it compares the samples of a batch, and is validated on whole batches alone
    composes = False  # it composes texts, and so reads a batch before the others
    pairs: str = ""  # what it pairs; terms that pair the same answer one question of validation
    parameter_rules: Sequence[ParameterRule] = ()  # how its own parameters are trained

    def __init__(self, settings: Any, encoders: Encoders) -> None:
        super().__init__()
        self.settings = settings

    @property
    def needs(self) -> Needs:
        """What it reads, as its settings say."""
        needs: Needs = self.settings.needs
        return needs

    @abstractmethod
    def loss(self, views: Views) -> Tensor:
        """This process's share of the term, without its weight; a scalar."""

    def comparisons(self, views: Views) -> Comparisons | None:
        """The scores of its pairs in a validation batch; None: it has no pairs to permute."""
        return None

    def similarity(self) -> "Similarity | None":
        """How the model compares images with texts afterwards; None: not by this term."""
        return None

    def after_update(self) -> None:
        """Called without gradients when the weights have changed."""

    def logged(self) -> Mapping[str, float | Tensor]:
        """Values of the last loss for the log, this process's share; the same names every time."""
        return {}


class TermsProgram(Program):
    """Encoders and the terms they are trained by; batches are of whole samples.

    Attributes:
        samples: those of ``train`` and ``validate``, with their attributes.
        terms: by name, in the order in which they are summed; ``compares``: one of them does.
        needs: the views that they read, together.
        text_names: the text passes that the program has.
        stacked: it encodes the views of an image as neighbours of one batch.
    """

    text_names: Collection[str] = ()
    stacked = False
    images: "Mapping[str, SplitImages]" = {}  # by split
    selection: "Callable[[], dict[str, float]] | None" = None  # scores of a task
    # The ranks of untrained starts by term (``validation/twins.py``), of images and texts.
    twins: "Callable[[], Mapping[str, Sequence[float]]] | None" = None
    shuffled_twins: "Mapping[str, Sequence[float]]" = {}  # of models trained on shuffled pairs

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
        training, train, (seed, device, processes) = settings.training, samples["train"], run
        image: Any = encoders.get("image")
        trunk: Any = encoders.get("trunk") if image is None else image.encoder
        text: Any = encoders.get("text")
        readable = Encoders(train, trunk, image, text, cast(Any, vocabulary), ghost_batch)
        term_settings = settings.terms.named().items()
        self.terms = {name: self._term(name, values, readable) for name, values in term_settings}
        self.compares = any(term.compares for term in self.terms.values())
        kind, size, world = training.sampler, training.batch_size, processes.world
        self.sampler = choose_sampler(kind, train, size, seed, world, self.compares)
        self.batches_per_epoch = self.sampler.batches_per_epoch
        self.needs = Needs.of_all(term.needs for term in self.terms.values())
        self.parameter_rules = [r for term in self.terms.values() for r in term.parameter_rules]
        self.modules = {**encoders, **self.terms}
        self._record: dict[str, Any] = {}
        self.validation_state = {}
        require_whole_ghosts(size, ghost_batch, processes)
        # Statistics are of as many samples as ever, where a batch holds several views of each.
        views = {name: max(1, term.needs.images) for name, term in self.terms.items()}
        views |= dict.fromkeys(("image", "trunk") if self.stacked else (), self.needs.images or 1)
        for name, module in self.modules.items():
            move(module, device, processes, ghost_batch and ghost_batch * views.get(name, 1))

    def _term(self, name: str, settings: Any, encoders: Encoders) -> Term:
        """Make a term."""
        term: Term = term_class(name, settings)(settings, encoders)
        missing = [text for text in term.needs.texts if text not in self.text_names]
        if missing:
            raise InputError(
                f"terms.{name} reads the text '{missing[0]}', which this program does not have; "
                f"it has {', '.join(self.text_names) or 'none'}"
            )
        return term

    def views(self, split: str, batch: Batch) -> Views:
        """The views of a batch; a program without rows of samples defines ``losses`` instead."""
        raise NotImplementedError

    def objective(self, views: Views) -> Losses:
        """This process's share of the objective of a batch, from its views."""
        order = sorted(self.terms, key=lambda name: not self.terms[name].composes)
        losses = {name: self.terms[name].loss(views) for name in order}
        weighted = [term.settings.weight * losses[name] for name, term in self.terms.items()]
        terms = {name: losses[name].detach() for name in self.terms}
        return Losses(reduce(torch.add, weighted), terms, views.samples, views.tokens)

    def settle(self, room: int) -> None:
        """Let images stay on the device as far as there is room."""
        for images in self.images.values():
            room -= images.settle(room)

    @torch.no_grad()
    def after_update(self) -> None:
        """Tell the terms that the weights have changed."""
        for term in self.terms.values():
            term.after_update()

    def batch_ids(self, epoch: int, index: int) -> Sequence[str]:
        """Ids of a batch."""
        return [self.samples["train"].ids[row] for row in self.sampler.rows(epoch, index)]

    def prepare(self, epoch: int, index: int) -> Any:
        """The views of a batch, as far as they can be computed without weights."""
        rows, (seed, _, processes) = self.sampler.rows(epoch, index), self.run
        batch_fields = self.samples["train"], index, self.batches_per_epoch
        views = self.views("train", Batch(rows, seed, epoch, processes, *batch_fields))
        views.prepare(self.needs)
        return views

    def losses(self, batch: Any, micro_batch: int, micro_batches: int) -> Losses:
        """The objective of a batch's views."""
        losses = self.objective(batch)
        terms = self.terms.items()
        logged = {f"{name}/{key}": v for name, term in terms for key, v in term.logged().items()}
        losses.terms.update(sent_values(logged, losses.total))
        return losses

    def validate(self) -> dict[str, float]:
        """Mean objective on the validation samples: on all, unless a term compares them."""
        batches, first = self.validation_batches()
        share = batches[self.run.processes.rank :: self.run.processes.world]
        values = self.validated((self.views("validate", batch) for batch in share), first)
        return values if self.selection is None else {**values, **self.selection()}

    def validation_batches(self) -> tuple[list[Batch], np.ndarray]:
        """The batches of a validation, of all processes, and the rows that count as pairs."""
        training = self.settings.training
        cut = contrastive_batches if self.compares else even_batches
        samples = self.samples["validate"]
        batches = drawn_batches(cut(len(samples), training.batch_size), training.validation_batches)
        first = samples.first_of_patients(np.concatenate(batches))
        return [Batch(rows, 0, 0, ALONE, samples) for rows in batches], first

    def validated(
        self, batches: Iterable[Views], first: np.ndarray | None = None
    ) -> dict[str, float]:
        """The mean objective of this process's validation batches and those of all others.

        ``first``: the rows that count as pairs, one of each patient; None: all.
        """
        validated = (
            Validated(
                self.objective(views),
                {name: term.comparisons(views) for name, term in self.terms.items()},
                None if first is None else np.isin(views.batch.rows, first),
            )
            for views in batches
        )
        validation = Validation(validated, self.run.processes)
        validation.add_smallest(self.validation_state)
        best = self.settings.training.stopping.keep == "best"
        pairs = {name: term.pairs for name, term in self.terms.items()}
        smallest = self.validation_state if best else None
        twins = None if self.twins is None else self.twins()
        self._record = validation.record(pairs, smallest, twins, self.shuffled_twins)
        return validation.means()

    def validation_record(self) -> dict[str, Any]:
        """Whether the model has learnt, by the last validation."""
        return self._record
