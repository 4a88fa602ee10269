"""Settings of a series of checkpoints (ConVIRT section 6, Figure 5)."""

from typing import Any

from pydantic import Field, field_validator

from cxrflow.benchmarks.settings import BenchmarkSettings
from cxrflow.data.cohorts.settings import Split


class CheckpointSeriesSettings(BenchmarkSettings):
    """Score of each checkpoint of a training in a task."""

    benchmark: str = Field(default="", description="of the task; a paper's `of` names the task")
    settings: dict[str, Any] = Field(default={}, description="of the task, laid over its own")
    metric: str = Field(description="the task's score, by its name in metrics.json")
    loss: str = Field(default="loss", description="of the validations, by its name there")

    @field_validator("split")
    @classmethod
    def _rows_are_the_tasks(cls, split: Split | None) -> None:
        if split is not None:
            raise ValueError("expected null: rows are the task's, whose split is in `settings`")

    @property
    def geometry(self) -> str | None:
        """The geometry of the pixels that the task needs; None: the model's own."""
        geometry: str | None = self.settings.get("geometry")
        return geometry
