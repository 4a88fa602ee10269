"""Stand-ins, models trained here in the place of published weights, in the figures of a paper.

Whatever shows a model that is one, or that starts from one at any depth, has the word in its label:
a row of a table (:mod:`cxrflow.papers.table`) or its bar, a column of pictures, a line of a curve.
Which models these are follows from what models start from in a run
(``ResolvedModel.stand_ins``), so a paper is given it: of what weights each has a stand-in.
"""

from collections.abc import Mapping
from typing import Any

from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings
from cxrflow.papers.figures import BarsFigure, CurveFigure, Figure
from cxrflow.papers.table import Table, stand_in_label


def in_figure(figure: Figure, tables: Mapping[str, Table], stand_ins: Mapping[str, str]) -> Figure:
    """The figure with the word in its labels, or in its title where it is of one model.

    Bars have the labels of their rows.
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
