"""Settings of a figure of gradient saliency (ConVIRT section 6, Figure 4)."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from cxrflow.benchmarks.grounding.settings import FigureColumn
from cxrflow.command import Settings
from cxrflow.names import Name


class SaliencyFigureSettings(Settings):
    """What the linear heads of several models look at, an image a class."""

    PROGRAM: ClassVar = "classification.saliency"

    kind: Literal["saliency"] = "saliency"
    title: str
    task: Name = Field(description="linear classification, whose heads are taken")
    columns: list[FigureColumn] = Field(min_length=1)
    classes: list[str] = Field(min_length=1, description="of the task; an image of each")
    share: str = Field(default="1", description="labels the heads learnt from, in per cent")
    seed: int = Field(default=0, ge=0, description="of the draw of a class's image")

    def results(self, tables: Any) -> list[tuple[str, str | None]]:
        """The (task, model) pairs it shows."""
        return [(self.task, one.model) for one in self.columns if one.model is not None]
