"""Local matching of words and patches: GLoRIA's similarity (Huang et al. 2021, Eq. 2 to 4).

A model keeps it if the local term that trained it says ``model_similarity: true``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.local_alignment import Matching, local_similarity
from cxrflow.similarity.cosine import Cosine, patch_products
from cxrflow.similarity.pairs import SUMS, Pairs, ScoreFile, by_file, in_units
from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity
from cxrflow.similarity.words_and_patches import mean_words


class LocalSettings(SimilaritySettings):
    """How words are matched: the values of the local term that trained the model."""

    temp1: float
    temp2: float
    word_softmax: bool
    match: Literal["cosine", "dot"]
    aggregation: Literal["sum", "mean"]
    normalised: bool

    @property
    def matching(self) -> Matching:
        """The same for the objective."""
        return Matching(self.temp1, self.temp2, self.word_softmax, self.match, self.aggregation)


class Local(Similarity):
    """Z of objectives/local_alignment.py; a map is the mean of the words' cosines."""

    settings: LocalSettings

    @property
    def whole(self) -> Cosine:
        """The cosine of both projections: words and patches are parts."""
        return Cosine()

    def forward(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        assert images.patches is not None and texts.words is not None
        patch_NMP, word_TWP = images.patches.flatten(1, 2), texts.words.word_BWD
        if self.settings.normalised:
            patch_NMP, word_TWP = normalize(patch_NMP, dim=2), normalize(word_TWP.float(), dim=2)
        return local_similarity(patch_NMP, word_TWP, texts.words.lengths, self.settings.matching)

    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        return patch_products(images, mean_words(texts))

    @torch.inference_mode()
    def pairs(
        self,
        images: Iterable[EncodedImages],
        texts: Sequence[EncodedTexts],
        place_N: NDArray[np.int64],
    ) -> dict[str, Pairs]:
        """``local``: Z, a sum over words, which favours long texts; ``local_mean``; and wholes."""
        lengths = [n for batch in texts if batch.words is not None for n in batch.words.lengths]
        log_words_T = np.log(np.asarray(lengths, dtype=np.float32))
        wholes: list[EncodedImages] = []

        def compared() -> Iterator[EncodedImages]:
            for batch in images:
                wholes.append(EncodedImages(batch.embedding.cpu()))
                yield batch

        def means() -> Iterator[NDArray[np.float32]]:
            for score_BT in self._score_batches(compared(), texts):
                if self.settings.aggregation == "sum":
                    score_BT -= log_words_T
                yield score_BT

        file = ScoreFile.of(means(), place_N)
        log_words_N = in_units(log_words_T[place_N], SUMS)
        return {
            **self.whole.pairs(wholes, texts, place_N),
            "local": by_file(file, SUMS, log_words_N),
            "local_mean": by_file(file, SUMS),
        }
