"""A perceptron of both projections: the classifier of Contrastive-Binary-Loss (ConVIRT 4.3).

The paper scores that baseline by the cosine all the same. With ``model_similarity: true`` in the
term a model is scored by what it was trained with.

Shapes: N images, T texts, P width of the projections, h x w grid.
"""

import torch
from torch import Tensor, nn

from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity


class PerceptronSettings(SimilaritySettings):
    """Sizes of the perceptron."""

    width: int  # P
    hidden: int


class Perceptron(Similarity):
    """Logit that a text is the image's; of a patch, which is projected linearly too, likewise."""

    settings: PerceptronSettings

    def __init__(self, settings: PerceptronSettings, words: None = None) -> None:
        super().__init__(settings)
        self.classifier = nn.Sequential(
            nn.Linear(2 * settings.width, settings.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(settings.hidden, 1),
        )

    def logits(self, image_IP: Tensor, text_IP: Tensor) -> Tensor:
        """[I] of I pairs of projections, not of length 1."""
        return self.classifier(torch.cat([image_IP, text_IP], dim=-1))[..., 0]

    def forward(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        assert images.patches is not None
        # A linear projection of the mean is the mean of the projections.
        image_NP, text_TP = images.patches.mean((1, 2)), texts.projection
        pairs = (len(image_NP), len(text_TP), image_NP.shape[1])
        return self.logits(image_NP[:, None].expand(pairs), text_TP[None].expand(pairs))

    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        assert images.patches is not None
        text_N11P = texts.projection[:, None, None]
        count = max(len(images), len(texts))
        shape = (count, *images.patches.shape[1:])
        return self.logits(images.patches.expand(shape), text_N11P.expand(shape))
