"""The views of a batch: what programs make of its images and texts, and terms read.

This is the contract between the two. A program computes a view when a term first reads it, once for
all terms. Tensors lie on the device of the training unless noted.

Shapes: N samples of this process, P width of the joint space, F features of a trunk, h x w grid,
L tokens of the longest text, D width of the text encoder, M masked and T written tokens, V pieces
of the vocabulary.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cxrflow.errors import InputError
from cxrflow.pretrain.terms.settings import MaskedLanguageSettings
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.processes import Processes
from cxrflow.training.samples import SampleTable

# For type checkers alone: an edit of the text encoder retrains no program on images alone.
if TYPE_CHECKING:
    from cxrflow.encoders.cxr_bert import CXRBert
    from cxrflow.encoders.image_encoder import Frames, ImageEncoder, ImageOutput, ImageTrunk
    from cxrflow.encoders.word_aggregation import Words

KeyT = TypeVar("KeyT")
ViewT = TypeVar("ViewT")


class Batch(NamedTuple):
    """Rows of a split, of all processes, and the key of their random numbers."""

    rows: np.ndarray
    seed: int
    epoch: int
    processes: Processes
    samples: SampleTable = SampleTable(())  # of the split

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

    def gather(self, *parts: Tensor) -> tuple[list[Tensor], slice]:
        """The rows of all processes, and where this one's are: ``Processes.gather``."""
        return self.processes.gather(len(self.rows), *parts)

    def gather_words(self, words: "Words") -> "Words":
        """The words of the texts of all processes, padded to the longest of them."""
        (lengths,), _ = self.gather(torch.tensor(words.lengths))
        behind = int(lengths.max()) - words.word_BWD.shape[1]
        (word_BWD,), _ = self.gather(nn.functional.pad(words.word_BWD, (0, 0, 0, behind)))
        return words._replace(word_BWD=word_BWD, lengths=lengths.tolist())


@dataclass(frozen=True)
class Needs:
    """The views that a term reads.

    Attributes:
        images: augmented views of each image that go through the image encoder, from the first.
        texts: names of the text passes (docs/joint_training.md): ``intact``, ``other``; in phase
            III ``findings`` and ``impression``.
        layers: last layers of the text encoder whose states it reads of these texts.
        masking: how words are masked that it predicts; None: it predicts none.
        stage: of the image trunk, whose features :meth:`Views.mixed` takes; None: it mixes none.
    """

    images: int = 0
    texts: tuple[str, ...] = ()
    layers: int = 1
    masking: MaskedLanguageSettings | None = None
    stage: int | None = None

    @classmethod
    def of_all(cls, terms: Iterable["Needs"]) -> "Needs":
        """The needs of several terms together."""
        needs = list(terms)
        stages = {term.stage for term in needs if term.stage is not None}
        if len(stages) > 1:
            raise InputError(
                f"terms mix images after stages {sorted(stages)} of the trunk; expected one stage"
            )
        return cls(
            max((term.images for term in needs), default=0),
            tuple(dict.fromkeys(name for term in needs for name in term.texts)),
            max((term.layers for term in needs if term.texts), default=0),
            next((term.masking for term in needs if term.masking), None),
            next(iter(stages), None),
        )


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
    attended: Tensor | None = None  # where a captioner looked; see objectives/doubly_stochastic.py


class Computed(dict[KeyT, ViewT]):
    """Views by name or number, each computed when it is first read."""

    def __init__(self, compute: Callable[[KeyT], ViewT]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: KeyT) -> ViewT:
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
    """

    tokens: int = 0
    images: "Mapping[int, ImageOutput]"
    texts: Mapping[str, TextOutput]
    masked: list[MaskedText]

    def __init__(self, batch: Batch) -> None:
        self.batch, self.samples = batch, len(batch.own)

    def mixed(self, rows: Tensor, share: Tensor) -> "ImageOutput":
        """The first view with features of other images of this process, after the image encoder.

        After the trunk's stage ``Needs.stage`` the features are ``share`` of those of image
        ``rows[i]`` and the rest of those of image i (MedCutMix Eq. 4), and the trunk goes on with
        them. ``rows`` is int64 [N]; ``share``, in [0, 1], broadcasts to the features of that stage:
        [N, 1, h, w] for [N, C, h, w] of a ResNet, [N, tokens, 1] for [N, tokens, D].
        """
        raise _absent("images that are mixed after a stage of the trunk")

    @property
    def written(self) -> WrittenText:
        """The tokens that a decoder predicts."""
        raise _absent("reports that a decoder writes")

    def pixels(self, number: int) -> "Frames[Tensor]":
        """View ``number`` of each image: float32 [N, 1 or 3, H, W] in [0, 1], not standardised."""
        raise _absent("pixels of images")


def _absent(view: str) -> InputError:
    return InputError(f"a term reads {view}, which this training program has not")
