"""A perceptron with ReLU (ConVIRT section 2.2)."""

from torch import Tensor, nn
from torch.nn.functional import relu

from cxrflow.encoders.projection import PooledProjection, TextProjection
from cxrflow.encoders.settings import MlpHeadSettings


class ImageHead(PooledProjection):
    """Two linear layers, after pooling."""

    def __init__(self, features: int, outputs: int, settings: MlpHeadSettings) -> None:
        super().__init__()
        hidden = settings.hidden or features
        self.model = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs)
        )


class TextHead(TextProjection):
    """Two linear layers."""

    def __init__(self, width: int, outputs: int, settings: MlpHeadSettings) -> None:
        super().__init__()
        hidden = settings.hidden or width
        self.dense_to_hidden = nn.Linear(width, hidden)
        self.dense_to_output = nn.Linear(hidden, outputs)

    def forward(self, states: Tensor) -> Tensor:
        return self.dense_to_output(relu(self.dense_to_hidden(states)))
