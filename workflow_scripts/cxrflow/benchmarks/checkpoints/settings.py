"""Settings of a series of checkpoints (ConVIRT section 6, Figure 5)."""

from typing import Any

from pydantic import Field

from cxrflow.benchmarks.settings import BenchmarkSettings


class CheckpointSeriesSettings(BenchmarkSettings):
    """Score of each checkpoint of a training in a task."""

    benchmark: str = Field(default="", description="of the task; a paper's `of` names the task")
    settings: dict[str, Any] = Field(default={}, description="of the task, laid over its own")
    metric: str = Field(description="the task's score, by its name in metrics.json")
    loss: str = Field(default="loss", description="of the validations, by its name there")

    @property
    def geometry(self) -> str | None:
        """The geometry of the pixels that the task needs; None: the model's own."""
        geometry: str | None = self.settings.get("geometry")
        return geometry
