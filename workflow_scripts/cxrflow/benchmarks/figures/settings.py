"""Settings that figures of several models share."""

from typing import Any

from pydantic import Field, model_validator

from cxr_files.settings import Settings
from cxrflow.names import Name, is_reference


class FigureColumn(Settings):
    """A column of a figure: a model's maps, or the reason why there are none."""

    label: str
    model: Name | None = Field(default=None, description="our model of this column")
    reason: str | None = Field(default=None, description="why ours are missing")

    @model_validator(mode="after")
    def _a_model_or_a_reason(self) -> "FigureColumn":
        if (self.model is None) == (self.reason is None):
            raise ValueError(f"column '{self.label}': want either a model or a reason")
        if is_reference(self.model):
            raise ValueError(f"column '{self.label}': '{self.model}' is no model; figures need one")
        return self


class ColumnsFigureSettings(Settings):
    """A figure of several models: a result of a task in each column."""

    title: str
    task: Name
    columns: list[FigureColumn] = Field(min_length=1)

    def results(self, tables: Any) -> list[tuple[str, str | None]]:
        """The (task, model) pairs it shows."""
        return [(self.task, column.model) for column in self.columns if column.model is not None]
