"""Settings that figures share, and what the class of a figure says of it."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from cxr_files.settings import Settings
from cxrflow.names import Name, is_reference


class FigureSettings(Settings):
    """A figure, and what its class says of all of its kind.

    ``RULE``: of ``rules/figures.smk``, which draws it by ``PROGRAM``, a module below the package;
    None: a task draws it beside its numbers. ``READS``: what is read of each result beside it, by
    the option that takes it: the model, pixels or features of the task's cohort. ``ENDING``: of its
    file. ``SHOWS``: what of patients is on it; it is not drawn where that may not be shown.
    """

    RULE: ClassVar[str | None] = "draw_figure"
    PROGRAM: ClassVar[str] = ""
    READS: ClassVar[Sequence[Literal["models", "pixels", "features"]]] = ()
    ENDING: ClassVar[str] = "png"
    SHOWS: ClassVar[frozenset[Literal["images", "text"]]] = frozenset()

    title: str

    @property
    def of_pictures(self) -> bool:
        """True if it is made of the example pictures that its task draws."""
        return False

    def requires(self, results: Sequence[Any]) -> Sequence[Any]:
        """Those of its ``results`` without which it is not drawn; one there must be."""
        return ()

    def phrases(self, of_task: bool, allowed: bool) -> bool:
        """True if phrases stand on it: if those of its task do, or if text is ``allowed``."""
        return False


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


class ColumnsFigureSettings(FigureSettings):
    """A figure of several models: a result of a task in each column."""

    task: Name
    columns: list[FigureColumn] = Field(min_length=1)

    def results(self, tables: Any) -> list[tuple[str, str | None]]:
        """The (task, model) pairs it shows."""
        return [(self.task, column.model) for column in self.columns if column.model is not None]
