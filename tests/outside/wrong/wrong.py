"""Classes that no door lets in, each for one reason."""

from itertools import count
from typing import Any, ClassVar

import pandas as pd
import torch
from pydantic import field_serializer
from torch import Tensor, nn

from cxrflow.benchmarks.outside import OutsideBenchmark, OutsideBenchmarkSettings
from cxrflow.benchmarks.result import Predictions
from cxrflow.data.layouts.outside import OutsideLayout
from cxrflow.encoders.image_encoder import Frames, ImageTrunk, Patches, pooled
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.pretrain.objective import Term, Views
from cxrflow.pretrain.terms.base_settings import OutsideTermSettings

BUILT = count()


class Undescribed(OutsideLayout):
    """Without a description."""


class Unread(OutsideLayout):
    """Without a reader."""

    description = {"holds": ["images"]}


class Misdescribed(OutsideLayout):
    """Of a content that there is not."""

    description = {"holds": ["pictures"]}
    tables = print


class TermSettings(OutsideTermSettings):
    """A size that is written otherwise than it is read."""

    title = "Wrong"
    size: float = 1.0

    @field_serializer("size")
    def _write(self, size: float) -> Any:
        return size / 3


class Forgetful(Term):
    """Whose settings are not read back as they are written."""

    settings: TermSettings

    def loss(self, views: Views) -> Tensor:
        return views.images[0].pooled.sum()


class Untyped(Term):
    """Whose settings are not said."""

    def loss(self, views: Views) -> Tensor:
        return views.images[0].pooled.sum()


class Lossless(Term):
    """Without a loss."""

    settings: TermSettings


class Growing(ImageTrunk):
    """That is another one whenever it is built."""

    settings: ImageEncoderSettings

    def __init__(self, settings: ImageEncoderSettings) -> None:
        super().__init__()
        self.features, self.stages = 4, 1
        self.stem = nn.Conv2d(1, 4, 16, 16)
        self.more = nn.Parameter(torch.zeros(1 + next(BUILT)))

    def forward_until(self, frames: Frames[Tensor], stage: int) -> Frames[Tensor]:
        return Frames(self.stem(frames.current))

    def forward_from(self, hidden: Frames[Tensor], stage: int) -> Patches:
        return pooled(hidden.current)


class Protocol(OutsideBenchmarkSettings):
    """A size that is written otherwise than it is read."""

    size: float = 1.0

    @field_serializer("size")
    def _write(self, size: float) -> Any:
        return size / 3


class Measured(OutsideBenchmark):
    """That gives nothing."""

    settings: OutsideBenchmarkSettings
    description: ClassVar[Any] = {"kind": "pairs", "needs": ["image"]}
    metrics = ("one",)

    @staticmethod
    def predict(inputs: Any, settings: Any) -> Predictions:
        return Predictions(pd.DataFrame())


class Unmeasured(Measured):
    """Without metrics."""

    settings: OutsideBenchmarkSettings
    metrics = ()


class Unkept(Measured):
    """Whose protocol is not read back as it is written."""

    settings: Protocol


class Needy(Measured):
    """That needs what no model has."""

    settings: OutsideBenchmarkSettings
    description = {"kind": "pairs", "needs": ["sound"]}


class Unplaced(Measured):
    """On a kind of cohort that there is not."""

    settings: OutsideBenchmarkSettings
    description = {"kind": "sounds"}
