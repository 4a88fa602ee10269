"""Draw cells of a paper's table as bars, a group a column and a bar a row.

    cxrflow draw_bars --paper medcutmix --figure figure2 --metrics … --output figure2.png

Ours are filled, with their intervals; the published values stand beside them as outlines of the
same colour. A JSON file beside the picture says what it shows, and why values of ours are missing.
"""

import logging
from collections.abc import Sequence
from typing import Any

from cxr_files.program import run
from cxrflow.papers import Paper
from cxrflow.papers.figures import BarsFigure
from cxrflow.papers.table import Address
from cxrflow.show.figures.picture import drawn, png_bytes, read_figure, write_picture
from cxrflow.show.tables.cells import make_cell
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.tests import Tests
from cxrflow.show.tables.text import number

log = logging.getLogger("cxrflow")

_WIDTH = 0.8  # of a group; groups stand 1 apart
_MARGIN = 0.25  # above and below the values, as a share of their span


def read_bars(
    paper: Paper, figure: BarsFigure, results: Results, tests: Tests
) -> list[dict[str, Any]]:
    """The bars of each panel, column by column and in the order of the rows."""
    bars = []
    for place, panel in enumerate(figure.panels):
        for column in panel.columns:
            for row in figure.rows:
                spot = paper.spot(Address(figure.table, row, column))
                named = {"panel": place, "column": column, "row": spot.row.label}
                bars.append(named | drawn(make_cell(spot, results, tests)))
    return bars


def draw(paper: Paper, figure: BarsFigure, bars: Sequence[dict[str, Any]], ours: str) -> bytes:
    """Draw the picture as PNG; ``ours`` names our bars in the legend.

    An axis begins below its least value and not at 0: differences are small beside the values.
    """
    from matplotlib.figure import Figure as Canvas
    from matplotlib.patches import Patch

    table = paper.tables[figure.table]
    rows = [table.row(row).label for row in figure.rows]
    count = len(figure.panels)
    canvas = Canvas(figsize=(7.2, 2.9 * count), dpi=110, layout="constrained")
    width = _WIDTH / (2 * len(rows))
    for place, (panel, axes) in enumerate(
        zip(figure.panels, canvas.subplots(count, squeeze=False)[:, 0], strict=True)
    ):
        for bar in (each for each in bars if each["panel"] == place):
            number_ = rows.index(bar["row"])
            left = panel.columns.index(bar["column"]) - _WIDTH / 2 + 2 * number_ * width
            if bar["ours"] is not None:
                axes.bar(left, bar["ours"], width, align="edge", color=f"C{number_}")
            if bar["low"] is not None and bar["high"] is not None:
                middle = left + width / 2
                axes.plot([middle, middle], [bar["low"], bar["high"]], color="0.2", linewidth=1)
            if bar["published"] is not None:
                edge = {"edgecolor": f"C{number_}", "linestyle": "--", "fill": False}
                axes.bar(left + width, bar["published"], width, align="edge", **edge)
        in_panel = [each for each in bars if each["panel"] == place]
        axes.set_ylim(*_ends(in_panel))
        labels = [table.column(key).label for key in panel.columns]
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylabel(panel.y)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=f"C{place}", label=row) for place, row in enumerate(rows)]
    handles.append(Patch(color="0.3", label=ours))
    handles.append(Patch(edgecolor="0.3", linestyle="--", fill=False, label="published"))
    canvas.legend(handles=handles, frameon=False, fontsize=8, loc="outside upper center", ncols=4)
    return png_bytes(canvas)


def _ends(bars: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The ends of an axis that shows all values and intervals."""
    names = ("ours", "low", "high", "published")
    values = [bar[name] for bar in bars for name in names if bar[name] is not None]
    if not values:
        return 0.0, 1.0
    margin = _MARGIN * (max(values) - min(values)) or 0.1
    return min(values) - margin, max(values) + margin


def main(argv: Sequence[str] | None = None) -> None:
    read = read_figure(argv, __doc__, BarsFigure)
    bars = read_bars(read.paper, read.figure, read.results, read.tests)
    png = draw(read.paper, read.figure, bars, read.ours)
    table = read.paper.tables[read.figure.table]
    lines = []
    for bar in bars:
        column = table.column(bar["column"])
        ours = "–" if bar["ours"] is None else number(bar["ours"], column)
        published = "–" if bar["published"] is None else f"{bar['published']:g}"
        values = [f"ours {ours}", f"published {published}"]
        lines.append(f"{column.label}, {bar['row']}: {', '.join(values)}")
    reasons = {bar["reason"] for bar in bars}
    write_picture(read.output, png, read.figure, read.results, lines, reasons, {"bars": bars})
    log.info("%s: %d bars", read.output, len(bars))


if __name__ == "__main__":
    run(main)
