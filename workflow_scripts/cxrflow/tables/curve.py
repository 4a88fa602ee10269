"""Draw a figure of a paper's cells over a common quantity, such as the share of labels.

    cxrflow draw_curve --paper biovil --figure labels --metrics … --output labels.png

Ours are drawn with their intervals, the published values dashed in the same colour. A JSON file
beside the picture says what it shows, and why values of ours are missing.
"""

import io
import logging
from collections.abc import Sequence
from typing import Any

from cxrflow.errors import InputError
from cxrflow.files.atomic import atomic_path, write_json
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.figures import CurveFigure
from cxrflow.programs.program import run
from cxrflow.tables.cells import Cell, make_cell
from cxrflow.tables.notes import note_on_data
from cxrflow.tables.results import Results, read_results, results_parser
from cxrflow.tables.tests import Tests, read_tests
from cxrflow.tables.text import number

log = logging.getLogger("cxrflow")


def read_series(
    paper: Paper, figure: CurveFigure, results: Results, tests: Tests
) -> list[dict[str, Any]]:
    """The points of each series; a series of one cell has it at every value of the x axis."""
    series = []
    for line in figure.series:
        cells = [make_cell(paper.spot(place), results, tests) for place in figure.cells(line)]
        if len(cells) == 1:
            cells *= len(figure.x.values)
        points = [_point(x, cell) for x, cell in zip(figure.x.values, cells, strict=True)]
        series.append({"label": line.label, "points": points})
    return series


def _point(x: float, cell: Cell) -> dict[str, Any]:
    ours = cell.ours if isinstance(cell.ours, float) else None
    published = None if cell.published is None else float(cell.published)
    return {
        "x": x, "ours": ours, "low": cell.low, "high": cell.high, "published": published,
        "reason": cell.reason,
    }  # fmt: skip


def draw(figure: CurveFigure, series: Sequence[dict[str, Any]], label: str, ours: str) -> bytes:
    """Draw the picture as PNG; ``label`` names the y axis, ``ours`` our lines in the legend."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    canvas = Canvas(figsize=(6.4, 4.0), dpi=110, layout="constrained")
    axes = canvas.add_subplot()
    if figure.x.log:
        axes.set_xscale("log")
    axes.set_xticks(figure.x.values, [format(x, "g") for x in figure.x.values])
    axes.minorticks_off()
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(label)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    handles = []
    for number_, line in enumerate(series):
        colour = f"C{number_}"
        handles.append(Line2D([], [], color=colour, label=line["label"]))
        points = [point for point in line["points"] if point["ours"] is not None]
        xs, ys = [p["x"] for p in points], [p["ours"] for p in points]
        axes.plot(xs, ys, color=colour, marker="o", markersize=4)
        bars = [p for p in points if p["low"] is not None and p["high"] is not None]
        axes.fill_between(
            [p["x"] for p in bars], [p["low"] for p in bars], [p["high"] for p in bars],
            color=colour, alpha=0.12, linewidth=0,
        )  # fmt: skip
        points = [point for point in line["points"] if point["published"] is not None]
        xs, ys = [p["x"] for p in points], [p["published"] for p in points]
        axes.plot(xs, ys, color=colour, marker="o", markersize=4, fillstyle="none", linestyle="--")
    handles.append(Line2D([], [], color="0.3", marker="o", markersize=4, label=ours))
    handles.append(
        Line2D([], [], color="0.3", marker="o", fillstyle="none", linestyle="--", markersize=4,
               label="published")
    )  # fmt: skip
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="best")
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def main(argv: Sequence[str] | None = None) -> None:
    arguments = results_parser(__doc__)
    arguments.add_argument("--figure", required=True, help="key under its `figures:`")
    arguments.add_path("--output", "picture to write, a JSON beside it")
    options = arguments.parse_args(argv)
    paper, results = load_paper(options.paper), read_results(options.metrics)
    figure = paper.figures.get(options.figure)
    if not isinstance(figure, CurveFigure):
        raise InputError(f"paper {paper.name}: no figure '{options.figure}' of the kind curve")
    column = paper.tables[figure.table].column(figure.column)
    series = read_series(paper, figure, results, read_tests(options.tests))
    ours = "ours, on synthetic data" if results.synthetic else "ours"
    png = draw(figure, series, figure.y or column.label, ours)
    with atomic_path(options.output) as temporary:
        temporary.write_bytes(png)
    lines = [
        f"{line['label']}: "
        + ", ".join(
            f"{'–' if point['ours'] is None else number(point['ours'], column)} at {point['x']:g}"
            for point in line["points"]
        )
        for line in series
    ]
    reasons = {point["reason"] for line in series for point in line["points"]} - {None}
    missing = [f"Not drawn: {'; '.join(sorted(reasons))}."] if reasons else []
    write_json(
        options.output.with_suffix(".json"),
        {
            "kind": figure.kind,
            "title": figure.title,
            "data": {"name": ", ".join(results.datasets), "synthetic": results.synthetic},
            "shows": [],
            "caption": " ".join([note_on_data(results), *missing]),
            "lines": lines,
            "series": series,
        },
    )
    log.info("%s: %d series", options.output, len(series))


if __name__ == "__main__":
    run(main)
