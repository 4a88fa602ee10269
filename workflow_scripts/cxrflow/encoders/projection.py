"""The contract of projection heads, which bring features of images and texts to the joint space.

A kind is a module ``cxrflow.encoders.heads.<kind>`` with the classes ``ImageHead`` and
``TextHead``. Each is built from the width of the features, that of the joint space, and the kind's
settings. Their parameters lie under ``projector`` in an image encoder, under
``cls_projection_head`` in a text encoder.

Shapes: B studies or texts, F features, P joint space, h x w grid, W words.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn


class ImageProjection(nn.Module, ABC):
    """Projects the features of images."""

    @abstractmethod
    def forward(self, grid_BFhw: Tensor, pooled_BF: Tensor) -> tuple[Tensor, Tensor]:
        """Studies [B, P] and their patches [B, h, w, P], float32 and not normalised."""

    def freeze_local(self) -> None:
        """Freeze what projects patches alone, where nothing compares them."""

    def freeze_global(self) -> None:
        """Freeze what projects pooled features alone, where nothing reads them."""


class PooledProjection(ImageProjection):
    """Projects the pooled features, and those of each patch, by the same ``model``."""

    model: nn.Module  # [..., F] to [..., P]

    def forward(self, grid_BFhw: Tensor, pooled_BF: Tensor) -> tuple[Tensor, Tensor]:
        projected_BhwP = self.model(grid_BFhw.permute(0, 2, 3, 1)).float()
        return self.model(pooled_BF).float(), projected_BhwP


class TextProjection(nn.Module, ABC):
    """Projects states of texts or of their tokens."""

    @abstractmethod
    def forward(self, states: Tensor) -> Tensor:
        """States [..., width] to [..., P], not normalised."""

    def words(self, word_BWD: Tensor, lengths: Sequence[int]) -> Tensor:
        """Words [B, W, width] to [B, W, P], of which text b has the first ``lengths[b]``."""
        projected: Tensor = self(word_BWD)
        return projected

    def freeze_local(self) -> None:
        """Freeze what projects words alone, where nothing compares them."""

    def freeze_global(self) -> None:
        """Freeze what projects whole texts alone, where nothing reads them."""
