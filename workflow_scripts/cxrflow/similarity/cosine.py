"""Cosine of the projections: how BioViL, BioViL-T and ConVIRT compare images with texts."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.similarity.pairs import Pairs, by_vectors
from cxrflow.similarity.settings import PromptAverage, SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity


class Cosine(Similarity):
    """Cosine of the projected image, or of its projected patches, with the projected text.

    It has no weights: a model folder without ``similarity/`` compares by it.
    """

    reads_patches = False
    is_linear = True
    patches_are_linear = True

    def __init__(self) -> None:
        super().__init__(SimilaritySettings())

    def forward(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """[N, T] in [-1, 1]."""
        return images.embedding @ _unit(texts).T

    def scores(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """[N, T] in float64: one product, in which nearly equal images and texts stay apart."""
        return images.embedding.to(texts.device).double() @ _unit(texts).double().T

    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """[N, h, w] in [-1, 1] (BioViL section 4.1)."""
        return patch_products(images, _unit(texts))

    def paired_scores(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        return (images.embedding.to(texts.device) * _unit(texts)).sum(1)

    @torch.inference_mode()
    def pairs(
        self,
        images: Iterable[EncodedImages],
        texts: Sequence[EncodedTexts],
        place_N: NDArray[np.int64],
    ) -> dict[str, Pairs]:
        """Cosines in float64, a product for each block."""
        image_NP = torch.cat([batch.embedding.cpu() for batch in images]).double().numpy()
        text_TP = torch.cat([batch.projection for batch in texts]).double().cpu().numpy()
        return {"global": by_vectors(image_NP, text_TP[place_N])}

    def prompt_weights(self, prompts: EncodedTexts, average: PromptAverage) -> Tensor:
        """Weights [P] of a head on embeddings that scores images as a class's prompts do."""
        return prompt_embedding(prompts, average)

    def prompt_scores(
        self, images: EncodedImages, prompts: EncodedTexts, average: PromptAverage
    ) -> Tensor:
        """[N]: with the mean of the prompts' embeddings, not the mean of their cosines."""
        embedding_NP = images.embedding.to(prompts.device).double()
        return embedding_NP @ prompt_embedding(prompts, average)

    def prompt_maps(
        self, images: EncodedImages, prompts: EncodedTexts, average: PromptAverage
    ) -> Tensor:
        assert images.patches is not None
        return normalize(images.patches, dim=3).double() @ prompt_embedding(prompts, average)


def prompt_embedding(prompts: EncodedTexts, average: PromptAverage) -> Tensor:
    """Embedding [P] of a class: the mean of its prompts' embeddings, of length 1 again; float64.

    ``average`` "raw" takes the mean before each prompt is brought to length 1.
    """
    embedded_TP = prompts.projection.float() if average == "raw" else _unit(prompts)
    mean_P = embedded_TP.double().mean(0)
    return mean_P / mean_P.norm()


def patch_products(images: EncodedImages, vectors_NP: Tensor) -> Tensor:
    """Products [N, h, w] of patches of length 1 with a vector for each image, or one for all."""
    assert images.patches is not None
    return torch.einsum("bhwp,bp->bhw", normalize(images.patches, dim=3), vectors_NP)


def _unit(texts: EncodedTexts) -> Tensor:
    return normalize(texts.projection.float(), dim=1)
