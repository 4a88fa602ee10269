"""Settings of a figure of gradient saliency (ConVIRT section 6, Figure 4)."""

from typing import ClassVar, Literal

from pydantic import Field

from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings
from cxrflow.names import Name


class SaliencyFigureSettings(ColumnsFigureSettings):
    """Gradients of the linear heads of several models, an image a class."""

    PROGRAM: ClassVar = "benchmarks.classification.saliency"
    READS: ClassVar = ("models", "pixels")
    SHOWS: ClassVar = frozenset({"images"})

    kind: Literal["saliency"] = "saliency"
    task: Name = Field(description="linear classification, whose heads are taken")
    classes: list[str] = Field(min_length=1, description="of the task; an image of each")
    share: str = Field(default="1", description="labels the heads learnt from, in per cent")
    seed: int = Field(default=0, ge=0, description="of the draw of a class's image")
