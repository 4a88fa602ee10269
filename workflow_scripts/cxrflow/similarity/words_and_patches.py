"""The cosine of projections, and maps of words, for heads that project words and patches apart.

Heads of kind ``mgca`` bring images and texts to one space, patches and words to another (Wang et
al. 2022). So a patch cannot be compared with a whole text. A map is the mean over the words of
their cosines with the patches; scores of images are those of the cosine.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.similarity.cosine import Cosine, patch_products
from cxrflow.similarity.settings import PromptAverage
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity
from cxrflow.similarity.words import WordReader


class WordsAndPatches(Cosine):
    """Compares images with texts by their projections, and patches with words by theirs."""

    patches_are_linear = False  # a patch has no place among whole texts

    def __init__(self, words: WordReader) -> None:
        super().__init__()
        self.words = words

    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """[N, h, w] in [-1, 1]."""
        return patch_products(images, mean_words(texts))

    def prompt_maps(
        self, images: EncodedImages, prompts: EncodedTexts, average: PromptAverage
    ) -> Tensor:
        """[N, h, w]: the mean of the prompts' maps, however their projections are averaged."""
        return Similarity.prompt_maps(self, images, prompts, average)


def mean_words(texts: EncodedTexts) -> Tensor:
    """[T, P], the mean of the words of each text, each of length 1 before."""
    assert texts.words is not None
    word_TWP, lengths = texts.words
    length_T1 = torch.tensor(lengths, device=word_TWP.device)[:, None]
    # What stands behind a text's last word may be projected as well, to the head's biases.
    is_word_TW = torch.arange(word_TWP.shape[1], device=word_TWP.device) < length_T1
    summed_TP = (normalize(word_TWP.float(), dim=2) * is_word_TW[..., None]).sum(1)
    return summed_TP / length_T1
