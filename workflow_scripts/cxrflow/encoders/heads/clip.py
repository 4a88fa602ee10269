"""CLIP's projections: the trunk's attention pooling gives images, one matrix texts."""

from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.encoders.projection import ImageProjection, TextProjection
from cxrflow.encoders.settings import ClipHeadSettings


class ImageHead(ImageProjection):
    """Nothing: the attention pooling has brought whole and patches to the joint space."""

    def __init__(self, features: int, outputs: int, settings: ClipHeadSettings) -> None:
        super().__init__()
        if features != outputs:
            raise InputError(
                f"settings: key 'encoder.projection' is {outputs}, but the trunk has {features} "
                "features; expected as many with projection_head.kind clip, which adds no layer"
            )

    def forward(self, grid_BFhw: Tensor, pooled_BF: Tensor) -> tuple[Tensor, Tensor]:
        return pooled_BF.float(), grid_BFhw.permute(0, 2, 3, 1).float()


class TextHead(TextProjection):
    """A matrix without bias, the published ``text_projection``."""

    def __init__(self, width: int, outputs: int, settings: ClipHeadSettings) -> None:
        super().__init__()
        self.dense_to_output = nn.Linear(width, outputs, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        return self.dense_to_output(states)
