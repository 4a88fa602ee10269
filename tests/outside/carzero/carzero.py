"""Cross-attention: images ask the words of texts, texts the patches of images (CARZero, 2024).

Lai et al. take InfoNCE of the logits, by which the model is then scored as well.

Shapes: N images of h x w patches, T texts of at most W words, P width of the joint space.
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import symmetric_cross_entropy
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.base_settings import Needs, OutsideTermSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts, Similarity
from cxrflow.similarity.words import WordReader


class CrossAttentionSettings(SimilaritySettings):
    """Sizes of the attention."""

    width: int  # P
    heads: int


class CrossAttention(Similarity):
    """Mean of two logits: of what a text finds in an image, and an image in a text."""

    settings: CrossAttentionSettings

    def __init__(self, settings: CrossAttentionSettings, words: WordReader) -> None:
        super().__init__(settings, words)
        width, heads = settings.width, settings.heads
        self.to_patches = nn.MultiheadAttention(width, heads, batch_first=True)
        self.to_words = nn.MultiheadAttention(width, heads, batch_first=True)
        self.text_logit, self.image_logit = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        text_NTP, _ = self._read_patches(images, texts, len(images))
        assert texts.words is not None
        word_TWP, lengths = texts.words
        padding_TW = torch.arange(word_TWP.shape[1]) >= torch.tensor(lengths)[:, None]
        image_TNP, _ = self.to_words(
            images.embedding.expand(len(texts), -1, -1),
            word_TWP,
            word_TWP,
            key_padding_mask=padding_TW.to(word_TWP.device),
            need_weights=False,
        )
        from_texts_NT = self.text_logit(text_NTP)[..., 0]
        return (from_texts_NT + self.image_logit(image_TNP)[..., 0].T) / 2

    def maps(self, images: EncodedImages, texts: EncodedTexts) -> Tensor:
        """Where a text looks: its attention to the patches, the mean over heads."""
        assert images.patches is not None
        pairs, grid = max(len(images), len(texts)), images.patches.shape[1:3]
        one_each = EncodedTexts(texts.projection.expand(pairs, -1)[:, None])
        _, weight_N1M = self._read_patches(images, one_each, pairs)
        return weight_N1M[:, 0].unflatten(1, grid)

    def _read_patches(
        self, images: EncodedImages, texts: EncodedTexts, count: int
    ) -> tuple[Tensor, Tensor]:
        """What texts read in ``count`` images [N, T, P], and their weights [N, T, h * w]."""
        assert images.patches is not None
        patch_NMP = images.patches.flatten(1, 2).expand(count, -1, -1)
        query = normalize(texts.projection.float(), dim=-1)
        return self.to_patches(query.expand(count, -1, -1), patch_NMP, patch_NMP)


class PairsSettings(OutsideTermSettings):
    """Of the loss."""

    title = "Cross-attention"

    heads: int = Field(4, ge=1, description="of the attention; they share its width")

    @property
    def needs(self) -> Needs:
        """Words of the last layer."""
        return Needs(images=1, texts=("intact",), layers=1)


class CrossAttentionPairs(Term):
    """Every image of this process against every text of the batch."""

    settings: PairsSettings
    compares = True  # validated on whole batches
    pairs = "image and text"

    def __init__(self, settings: PairsSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        width = encoders.image.settings.projection
        self.attention = CrossAttention(
            CrossAttentionSettings(width=width, heads=settings.heads),
            WordReader.of(encoders.vocabulary, settings.needs.layers, cls_is_word=False),
        )

    def similarity(self) -> CrossAttention:
        """What the model keeps and is scored by."""
        return self.attention

    def loss(self, views: Views) -> Tensor:
        return symmetric_cross_entropy(*self._logits(views))

    def comparisons(self, views: Views) -> Comparisons:
        """The loss falls by 2 / B where a pair's logit rises by 1, once in each direction."""
        logits_BB, _ = self._logits(views)
        return Comparisons.of_batch(logits_BB, slope=2)

    def _logits(self, views: Views) -> tuple[Tensor, slice]:
        text, batch = views.texts["intact"], views.batch
        words = self.attention.words
        assert words is not None
        (projection_BP,), own = batch.gather(text.projected)
        read = batch.gather_words(words(text.encoder, text.states, text.ids))
        texts = EncodedTexts(projection_BP, read)
        logits_IB = self.attention(EncodedImages.of(views.images[0]), texts)
        (logits_BB,), own = batch.gather(logits_IB)
        return logits_BB, own
