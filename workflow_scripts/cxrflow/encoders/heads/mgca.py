"""MGCA's projections: of the pooled features, and others of patches and words (Wang et al. 2022).

Linear, batch normalisation, ReLU, linear, batch normalisation without weights of its own, as in the
published code. The statistics of patches and words are over all of a batch.

Shapes: N samples, T tokens of each, F features, P joint space; B texts of W words, K in all.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cxrflow.compute.device_copy import sent
from cxrflow.encoders.projection import ImageProjection, TextProjection
from cxrflow.encoders.settings import MgcaHeadSettings


class Perceptron(nn.Module):
    """Features [N, F] or [N, T, F] to [..., P]."""

    def __init__(self, features: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, outputs),
            nn.BatchNorm1d(outputs, affine=False),
        )

    def forward(self, states: Tensor) -> Tensor:
        for layer in self.layers:
            # Channels come second there, so that a ghost batch is one of samples.
            is_tokens = isinstance(layer, nn.BatchNorm1d) and states.dim() == 3
            states = layer(states.mT).mT if is_tokens else layer(states)
        return states


class TwoPerceptrons(nn.Module):
    """The ``model`` of whole images or texts, and the ``local`` one of their parts."""

    def __init__(self, features: int, outputs: int, settings: MgcaHeadSettings) -> None:
        super().__init__()
        self.model = Perceptron(features, settings.hidden, outputs)
        self.local = Perceptron(features, settings.hidden, outputs)
        self.padded_words = settings.padded_words

    def freeze_local(self) -> None:
        self.local.requires_grad_(False)

    def freeze_global(self) -> None:
        self.model.requires_grad_(False)


class ImageHead(TwoPerceptrons, ImageProjection):
    """A projection of the pooled features and one of the patches."""

    def forward(self, grid_BFhw: Tensor, pooled_BF: Tensor) -> tuple[Tensor, Tensor]:
        patches_BMP = self.local(grid_BFhw.flatten(2).mT)
        projected_BhwP = patches_BMP.unflatten(1, grid_BFhw.shape[2:])
        return self.model(pooled_BF).float(), projected_BhwP.float()


class TextHead(TwoPerceptrons, TextProjection):
    """A projection of [CLS] and one of the words."""

    def forward(self, states: Tensor) -> Tensor:
        return self.model(states)

    def words(self, word_BWD: Tensor, lengths: Sequence[int]) -> Tensor:
        """Words [B, W, P], zero behind a text's last; with ``padded_words`` padding too."""
        if self.padded_words is not None:
            missing = max(0, self.padded_words - word_BWD.shape[1])
            return self.local(nn.functional.pad(word_BWD, (0, 0, 0, missing)))
        is_word_BW = torch.arange(word_BWD.shape[1]) < torch.tensor(lengths)[:, None]
        places_K = sent(is_word_BW.flatten().nonzero().flatten(), word_BWD.device)
        word_KP = self.local(word_BWD.flatten(0, 1).index_select(0, places_K))
        empty = word_KP.new_zeros(is_word_BW.numel(), word_KP.shape[1])
        return empty.index_copy(0, places_K, word_KP).unflatten(0, is_word_BW.shape)
