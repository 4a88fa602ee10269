"""The interface of a similarity of images and texts; a kind is a module, found by its name.

``cxrflow.similarity.<kind>`` holds the class of that name (``local`` the class ``Local``); one from
outside of the package is ``module:Class``. A model is trained with a similarity, keeps it, and is
scored by it: zero-shot prompts, retrieval and grounding all ask the same object, and compare
nothing by themselves. So another kind changes no other model's code.

Shapes: N images, T texts, P width of the joint space, h x w grid, W words of the longest text.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrflow.encoders.image_encoder import ImageOutput
from cxrflow.encoders.word_aggregation import Words
from cxrflow.similarity.pairs import Pairs, ScoreFile, by_file
from cxrflow.similarity.settings import PromptAverage, SimilaritySettings
from cxrflow.similarity.words import WordReader

BLOCK = 64  # images, and texts, that a similarity of patches and words compares at once


class EncodedImages(NamedTuple):
    """N images as a similarity reads them."""

    embedding: Tensor  # [N, P], of length 1
    patches: Tensor | None = None  # [N, h, w, P], as projected, not of length 1

    @classmethod
    def of(cls, output: ImageOutput) -> Self:
        """The images of an encoder's output."""
        return cls(output.projected_global, output.unnormalised_patches)

    def rows(self, rows: slice | NDArray[np.int64]) -> "EncodedImages":
        """Some of the images."""
        patches = None if self.patches is None else self.patches[rows]
        return EncodedImages(self.embedding[rows], patches)

    def to(self, device: torch.device) -> "EncodedImages":
        """The images on a device."""
        patches = None if self.patches is None else self.patches.to(device)
        return EncodedImages(self.embedding.to(device), patches)

    def __len__(self) -> int:
        return len(self.embedding)


class EncodedTexts(NamedTuple):
    """T texts as a similarity reads them."""

    projection: Tensor  # [T, P], not of length 1
    words: Words | None = None  # [T, W, P], of a similarity that reads words

    @classmethod
    def joined(cls, texts: Sequence["EncodedTexts"]) -> "EncodedTexts":
        """Texts that were encoded batch by batch."""
        projection_TP = torch.cat([text.projection for text in texts])
        words = [text.words for text in texts if text.words is not None]
        if not words:
            return cls(projection_TP)
        longest = max(word.word_BWD.shape[1] for word in words)
        padded = [
            nn.functional.pad(word.word_BWD, (0, 0, 0, longest - word.word_BWD.shape[1]))
            for word in words
        ]
        return cls(projection_TP, Words(torch.cat(padded), [n for w in words for n in w.lengths]))

    def rows(self, rows: slice | Sequence[int]) -> "EncodedTexts":
        """Some of the texts."""
        if self.words is None:
            return EncodedTexts(self.projection[rows])
        lengths = np.asarray(self.words.lengths)[rows].tolist()
        return EncodedTexts(self.projection[rows], Words(self.words.word_BWD[rows], lengths))

    @property
    def device(self) -> torch.device:
        """Where the texts are, and where they are compared."""
        return self.projection.device

    def __len__(self) -> int:
        return len(self.projection)


class Similarity(nn.Module, ABC):
    """Scores of images with texts; ``settings`` and weights are kept in the model's folder.

    ``settings``: a class annotates it with that of its own. ``reads_patches``: not the embeddings
    of images alone. ``is_linear``: a text is one vector, at which a linear head on embeddings of
    images can start (``prompt_weights``); ``patches_are_linear``: or a head on patches.
    """

    settings: SimilaritySettings
    reads_patches: ClassVar[bool] = True
    is_linear: ClassVar[bool] = False
    patches_are_linear: ClassVar[bool] = False

    def __init__(self, settings: SimilaritySettings, words: WordReader | None = None) -> None:
        super().__init__()
        self.settings, self.words = settings, words

    @abstractmethod
    def forward(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """Score [N, T] of every image with every text; a greater one is a better match."""

    @abstractmethod
    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """Score [N, h, w] of every patch of image n with text n; one of either serves all."""

    @property
    def whole(self) -> "Similarity":
        """How it compares whole images with texts; itself, unless it matches parts of them."""
        return self

    @torch.inference_mode()
    def scores(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """As :meth:`forward`, block by block: pairs of patches and words need not fit in memory."""
        rows = []
        for n in _blocks(len(images)):
            block = images.rows(n).to(texts.device)
            rows.append(torch.cat([self(block, texts.rows(t)) for t in _blocks(len(texts))], dim=1))
        return torch.cat(rows)

    @torch.inference_mode()
    def paired_scores(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """Score [N] of image n with text n."""
        pairs = [slice(n, n + 1) for n in range(len(images))]
        images = images.to(texts.device)
        return torch.cat([self(images.rows(n), texts.rows(n))[0] for n in pairs])

    @torch.inference_mode()
    def pairs(
        self,
        images: Iterable[EncodedImages],
        texts: Sequence[EncodedTexts],
        place_N: NDArray[np.int64],
    ) -> dict[str, Pairs]:
        """Scores of N images with their N texts, by what is matched: ``global``, as wholes.

        Args:
            images: batches, which are compared as they come and not kept.
            texts: batches of the different texts.
            place_N: which of them is each image's.
        """
        return {"global": by_file(ScoreFile.of(self._score_batches(images, texts), place_N))}

    def _score_batches(
        self, images: Iterable[EncodedImages], texts: Sequence[EncodedTexts]
    ) -> Iterable[NDArray[np.float32]]:
        """Scores [B, T] of each batch of images with all texts."""
        for batch in images:
            score_blocks = [self.scores(batch, of_texts).cpu().numpy() for of_texts in texts]
            yield np.concatenate(score_blocks, axis=1)

    def prompt_scores(
        self, images: EncodedImages, prompts: EncodedTexts, average: PromptAverage
    ) -> Tensor:
        """Score [N] of images with the prompts of one class: the mean of their scores."""
        return self.scores(images, prompts).mean(1)

    def prompt_maps(
        self, images: EncodedImages, prompts: EncodedTexts, average: PromptAverage
    ) -> Tensor:
        """Map [N, h, w] of the prompts of one class: the mean of their maps."""
        each = [self.maps(images, prompts.rows(slice(t, t + 1))) for t in range(len(prompts))]
        return torch.stack(each).mean(0)


def _blocks(count: int) -> list[slice]:
    return [slice(begin, begin + BLOCK) for begin in range(0, count, BLOCK)]
