"""The figures of a paper, a class a kind. A new kind needs settings, a program and a line here.

What a class says of its kind: :class:`~cxrflow.benchmarks.figures.settings.FigureSettings`. Those
that cxrflow.benchmarks.draw_figure draws have a line there too.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Before, Settings
from cxrflow.benchmarks.classification.saliency_settings import SaliencyFigureSettings
from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings, FigureSettings
from cxrflow.benchmarks.generation.settings import ReportsFigureSettings
from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings, PriorFigureSettings
from cxrflow.benchmarks.retrieval.settings import (
    EmbeddingFigureSettings,
    NeighboursFigureSettings,
    RetrievedFigureSettings,
)
from cxrflow.names import Name
from cxrflow.papers.claims import PartialAddress, address
from cxrflow.papers.table import Address, Result, Table, stand_in_label


class Axis(Settings):
    """The x axis of a curve."""

    label: str
    values: list[float] = Field(min_length=2, description="where the cells of a series stand")
    columns: list[str] | None = Field(
        None, description="keys of the columns that stand there; a series is then a row"
    )
    log: bool = False

    @model_validator(mode="after")
    def _values_rise(self) -> Self:
        if self.columns is not None and len(self.columns) != len(self.values):
            raise ValueError(f"columns are {self.columns}; expected {len(self.values)}")
        if sorted(set(self.values)) != self.values or (self.log and self.values[0] <= 0):
            raise ValueError(f"values are {self.values}; expected rising ones, above 0 where log")
        return self


class Series(Settings):
    """A line: a cell for each value of the x axis, or one cell for all of them."""

    label: str
    column: Annotated[str | None, Before(None)] = Field(
        None, description="of its cells, where it is not the figure's"
    )
    cells: list[str | PartialAddress] = Field(min_length=1)


class CurveFigure(FigureSettings):
    """Cells of tables over a common quantity, ours beside the published ones."""

    RULE: ClassVar = "draw_curve"
    PROGRAM: ClassVar = "show.figures.curve"

    kind: Literal["curve"]
    table: str
    column: str = Field(description="key of the column: the y axis")
    y: str | None = Field(None, description="label of the y axis, where not the column's")
    x: Axis
    series: list[Series] = Field(min_length=1)
    forecast: Annotated[bool, Before(False)] = Field(
        False,
        description="the x axis is a share of the training pairs, in per cent: curves are fitted "
        "to each series, and say what twice the pairs would give",
    )

    @model_validator(mode="after")
    def _series_fit_the_axis(self) -> Self:
        if self.forecast and self.x.values[-1] != 100:
            raise ValueError(
                f"forecast goes on from all pairs, but the last of x.values is "
                f"{self.x.values[-1]:g}; expected 100, in per cent of the pairs"
            )
        for line in self.series:
            if self.x.columns is not None and len(line.cells) != 1:
                raise ValueError(f"series '{line.label}' has several cells; expected a row")
            if self.x.columns is not None and line.column is not None:
                raise ValueError(f"series '{line.label}' has a column, but so has the x axis")
            if len(line.cells) not in (1, len(self.x.values)):
                raise ValueError(
                    f"series '{line.label}' has {len(line.cells)} cells; expected one, or "
                    f"{len(self.x.values)} as the x axis has values"
                )
        return self

    def cells(self, series: Series) -> list[Address]:
        """The cells of a series, in the order of the x axis."""
        if self.x.columns is not None:
            row = address(series.cells[0], self.table, self.column)
            return [row._replace(column=column) for column in self.x.columns]
        column = series.column or self.column
        return [address(cell, self.table, column) for cell in series.cells]

    def results(self, tables: Mapping[str, Table]) -> list[Result]:
        """The (task, model) pairs whose results it shows."""
        results: dict[Result, None] = {}
        for place in self.addresses():
            results |= dict.fromkeys(tables[place.table].results([place.row], [place.column]))
        return list(results)

    def addresses(self) -> list[Address]:
        """The cells it names."""
        return [cell for series in self.series for cell in self.cells(series)]


class BarPanel(Settings):
    """Columns of a table on one axis."""

    y: str = Field(description="label of the axis")
    columns: list[str] = Field(min_length=1, description="keys of columns, a group of bars each")


class BarsFigure(FigureSettings):
    """Cells of a table as bars, ours beside the published ones; a bar a row."""

    RULE: ClassVar = "draw_curve"
    PROGRAM: ClassVar = "show.figures.bars"

    kind: Literal["bars"]
    table: str
    rows: list[str] = Field(min_length=1, description="labels of rows")
    panels: list[BarPanel] = Field(min_length=1)

    def results(self, tables: Mapping[str, Table]) -> list[Result]:
        """The (task, model) pairs whose results it shows."""
        columns = [key for panel in self.panels for key in panel.columns]
        return tables[self.table].results(self.rows, columns)

    def addresses(self) -> list[Address]:
        """The cells it names."""
        return [
            Address(self.table, row, column)
            for panel in self.panels
            for column in panel.columns
            for row in self.rows
        ]


class PictureFigure(FigureSettings):
    """A picture that a task draws beside its numbers, of a model or of the data themselves."""

    RULE: ClassVar = None

    kind: Literal["picture"]
    task: Name
    model: Name | None = Field(None, description="the model that the task scores, first seed")
    file: str = Field(description="its name among the figures of the task")
    radiographs: bool = Field(False, description="it shows images of patients")

    def results(self, tables: Mapping[str, Table]) -> list[Result]:
        """The task, and its model if it needs one."""
        return [(self.task, self.model)]

    @property
    def of_pictures(self) -> bool:
        return self.radiographs


Figure = Annotated[
    GroundingFigureSettings
    | PriorFigureSettings
    | EmbeddingFigureSettings
    | SaliencyFigureSettings
    | ReportsFigureSettings
    | NeighboursFigureSettings
    | RetrievedFigureSettings
    | CurveFigure
    | BarsFigure
    | PictureFigure,
    Field(discriminator="kind"),
]


def with_stand_ins(
    figure: Figure, tables: Mapping[str, Table], stand_ins: Mapping[str, str]
) -> Figure:
    """The figure with the word in the label of each line or column that has a stand-in.

    Of one model its title has it, and bars have the labels of their rows. ``stand_ins``: of what
    weights each model of a run has one.
    """
    if isinstance(figure, BarsFigure):
        return figure
    update: dict[str, Any]
    if isinstance(figure, CurveFigure):
        lines = []
        for line in figure.series:
            cells = [tables[place.table].cell(place) for place in figure.cells(line)]
            weights = [table.stand_ins_of(row, column) for table, row, column in cells]
            label = stand_in_label(line.label, any(weights))
            lines.append(line.model_copy(update={"label": label}))
        update = {"series": lines}
    elif isinstance(figure, ColumnsFigureSettings):
        columns = [
            column.model_copy(
                update={"label": stand_in_label(column.label, column.model in stand_ins)}
            )
            for column in figure.columns
        ]
        update = {"columns": columns}
    elif figure.model in stand_ins:
        update = {"title": stand_in_label(figure.title.rstrip("."), True)}
    else:
        return figure
    return figure.model_copy(update=update)
