"""Token-wise alignment: the words of a report and the patches of its image (MGCA, CTA).

Words are sums of their pieces' states in the last layer. Words and patches weigh as much as [CLS]
attends to them in the last layer; patches of an encoder without [CLS] weigh alike.

Shapes: N pairs of this process, W words of the longest report, M patches, P joint space.
"""

import torch
from torch import Tensor

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.word_aggregation import Words, aggregate_words
from cxrflow.objectives.token_alignment import TokenMatching, token_alignment, token_weights
from cxrflow.pretrain.objective import Encoders, Term, TextOutput, Views
from cxrflow.pretrain.terms.mgca_settings import TokenAlignmentSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.similarity.words import WordReader


class TokenAlignment(Term):
    """Each token finds its context in the other modality, within a pair."""

    settings: TokenAlignmentSettings
    compares = False
    pairs = "image and text"

    def __init__(self, settings: TokenAlignmentSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        pads = getattr(encoders.text.config.projection_head, "padded_words", None) is not None
        self.matching = TokenMatching(settings.temperature, pads, settings.unit_context)
        self.reader = WordReader.of(
            encoders.vocabulary, 1, cls_is_word=False, sep_is_word=settings.sep_is_word
        )

    def loss(self, views: Views) -> Tensor:
        losses_N = token_alignment(*self._words(views), *self._patches(views), self.matching)
        return losses_N.sum() / len(views.batch.rows)

    def comparisons(self, views: Views) -> Comparisons:
        """The loss of every image with every text."""
        words, (patch_NMP, weight_NM) = self._words(views), self._patches(views)
        scores = []
        for patch_MP, weight_M in zip(patch_NMP, weight_NM, strict=True):
            image = patch_MP.expand_as(patch_NMP), weight_M.expand_as(weight_NM)
            scores.append(-token_alignment(*words, *image, self.matching))
        return Comparisons.of_batch(torch.stack(scores))

    def _words(self, views: Views) -> tuple[Tensor, Tensor, Tensor]:
        """Projected words [N, W, P], which are words, and their weights [N, W]."""
        text = views.texts["intact"]
        words = self.reader(text.encoder, text.states, text.ids)
        word_NWP, lengths = words
        is_word_NW = torch.arange(word_NWP.shape[1]) < torch.tensor(lengths)[:, None]
        attention_NV = self.attention(text)
        behind = word_NWP.shape[1] - attention_NV.shape[1]  # padding that counts
        weight_NW = token_weights(torch.nn.functional.pad(attention_NV, (0, behind)))
        return word_NWP, sent(is_word_NW, word_NWP.device), weight_NW

    @torch.no_grad()
    def attention(self, text: TextOutput) -> Tensor:
        """How much [CLS] attends to each word, [N, V]: its pieces' sum, the mean of the heads."""
        weights_NHL = text.encoder.cls_attention(text.states[-2].detach(), text.mask)
        pieces_NL1 = weights_NHL.float().mean(1)[:, :, None]
        words: Words = aggregate_words(
            [pieces_NL1], text.ids, self.reader.continues_V, self.reader.dropped_V
        )
        return words.word_BWD[:, :, 0]

    def _patches(self, views: Views) -> tuple[Tensor, Tensor]:
        """Projected patches [N, M, P] and their weights [N, M]."""
        image = views.images[0]
        patch_NMP = image.unnormalised_patches.flatten(1, 2)
        if image.cls_attention is None:
            return patch_NMP, patch_NMP.new_full(patch_NMP.shape[:2], 1 / patch_NMP.shape[1])
        return patch_NMP, token_weights(image.cls_attention.mean(1).flatten(1))
