"""BioViL's projection (section 2.2, Appendix E.2): normalised between its two layers."""

from torch import Tensor, nn
from torch.nn.functional import gelu

from cxrflow.encoders.projection import ImageProjection, TextProjection
from cxrflow.encoders.settings import BiovilHeadSettings


class ImageHead(ImageProjection):
    """1x1 convolutions with batch normalisation, on the patches before they are averaged."""

    def __init__(self, features: int, outputs: int, settings: BiovilHeadSettings) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(features, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 1),
        )

    def forward(self, grid_BFhw: Tensor, pooled_BF: Tensor) -> tuple[Tensor, Tensor]:
        projected_BPhw = self.model(grid_BFhw).float()
        # Before the mean: the gradient, summed the other way round, has the layout of this one.
        projected_BhwP = projected_BPhw.permute(0, 2, 3, 1)
        return projected_BPhw.mean((2, 3)), projected_BhwP


class TextHead(TextProjection):
    """Two linear layers with GELU and layer normalisation between them."""

    def __init__(self, width: int, outputs: int, settings: BiovilHeadSettings) -> None:
        super().__init__()
        self.dense_to_hidden = nn.Linear(width, outputs)
        self.LayerNorm = nn.LayerNorm(outputs, eps=1e-12)
        self.dense_to_output = nn.Linear(outputs, outputs)

    def forward(self, states: Tensor) -> Tensor:
        return self.dense_to_output(self.LayerNorm(gelu(self.dense_to_hidden(states))))
