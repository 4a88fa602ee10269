"""Images as a training program reads them, without a pixel store or augmentation."""

import numpy as np
import torch
from torch import Tensor

from cxrflow.encoders.image_encoder import Frames


class Pictures:
    """Random images of the samples, by row; none has a prior."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.rand(count, 1, 64, 64, generator=generator)
        self.priors = np.full(count, -1)

    def __len__(self) -> int:
        return len(self.pixels)

    def drawn(self, rows: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        return rows

    def take(self, rows: np.ndarray) -> Frames[Tensor]:
        return Frames(self.pixels[rows])


class Unchanged:
    """An augmentation that leaves images as they are."""

    def __call__(self, pixels: Tensor, *keys: int) -> Tensor:
        return pixels

    def centre(self, pixels: Tensor) -> Tensor:
        return pixels
