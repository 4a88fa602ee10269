"""Local matching of words and patches: GLoRIA's similarity (Huang et al. 2021, Eq. 2 to 4).

A model keeps it if the local term that trained it says ``model_similarity: true``.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cxr_files.settings import Settings
from cxrflow.objectives.local_alignment import Matching, local_similarity
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity


class LocalConfig(Settings):
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

    Config = LocalConfig
    config: LocalConfig

    def forward(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        assert images.patches is not None and texts.words is not None
        patch_NMP, word_TWP = images.patches.flatten(1, 2), texts.words.word_BWD
        if self.config.normalised:
            patch_NMP, word_TWP = normalize(patch_NMP, dim=2), normalize(word_TWP.float(), dim=2)
        return local_similarity(patch_NMP, word_TWP, texts.words.lengths, self.config.matching)

    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        assert images.patches is not None and texts.words is not None
        word_TWP, lengths = texts.words
        length_T1 = torch.tensor(lengths, device=word_TWP.device)[:, None]
        # What stands behind a text's last word is projected as well, to the head's biases.
        is_word_TW = torch.arange(word_TWP.shape[1], device=word_TWP.device) < length_T1
        summed_TP = (normalize(word_TWP.float(), dim=2) * is_word_TW[..., None]).sum(1)
        mean_TP = summed_TP / length_T1
        return torch.einsum("bhwp,bp->bhw", normalize(images.patches, dim=3), mean_TP)
