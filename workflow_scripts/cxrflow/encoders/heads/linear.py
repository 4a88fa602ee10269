"""One linear layer (ConVIRT section 4.4)."""

from torch import Tensor, nn

from cxrflow.encoders.projection import PooledProjection, TextProjection
from cxrflow.encoders.settings import LinearHeadSettings


class ImageHead(PooledProjection):
    """Of pooled features and patches."""

    def __init__(self, features: int, outputs: int, settings: LinearHeadSettings) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(features, outputs))


class TextHead(TextProjection):
    """Of pooled states and tokens."""

    def __init__(self, width: int, outputs: int, settings: LinearHeadSettings) -> None:
        super().__init__()
        self.dense_to_output = nn.Linear(width, outputs)

    def forward(self, states: Tensor) -> Tensor:
        return self.dense_to_output(states)
