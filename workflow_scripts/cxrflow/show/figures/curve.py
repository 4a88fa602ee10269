"""Draw a figure of a paper's cells over a common quantity, such as the share of labels.

    cxrflow draw_curve --paper biovil --figure labels --metrics … --output labels.png

Ours are drawn with their intervals, the published values dashed in the same colour. A JSON file
beside the picture says what it shows, and why values of ours are missing.
"""

import logging
from collections.abc import Sequence
from textwrap import fill
from typing import Any

from cxr_files.program import run
from cxrflow.metrics.power_law import LEAST_NUMBERS, doubt, fit
from cxrflow.papers import Paper
from cxrflow.papers.figures import CurveFigure
from cxrflow.papers.table import Column
from cxrflow.show.figures.picture import png_bytes, read_figure, write_picture
from cxrflow.show.tables.cells import Cell, make_cell
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.tests import Tests
from cxrflow.show.tables.text import number

log = logging.getLogger("cxrflow")

MORE = (2, 4)  # times the pairs
_LABEL = 40  # letters beside the y axis
#: Metrics that are never above 1, by a part of their names.
SHARES_OF_ONE = {
    *("auroc", "query_auroc", "recall", "average_precision", "accuracy", "balanced_accuracy"),
    *("sensitivity", "specificity", "f1"),
}


def read_series(
    paper: Paper, figure: CurveFigure, results: Results, tests: Tests
) -> list[dict[str, Any]]:
    """The points of each series; a series of one cell has it at every value of the x axis.

    In a figure with a power law also ``more``, what the law says of more pairs (:func:`beyond`).
    """
    series = []
    for line in figure.series:
        spots = [paper.spot(place) for place in figure.cells(line)]
        cells = [make_cell(spot, results, tests) for spot in spots]
        _, row, column = spots[-1]
        bounded = SHARES_OF_ONE & {*row.metric_of(column).split("/")}
        most = column.scale if bounded else None
        more = {"more": beyond(figure.x.values, cells, most)} if figure.power_law else {}
        if len(cells) == 1:
            cells *= len(figure.x.values)
        points = [_point(x, cell) for x, cell in zip(figure.x.values, cells, strict=True)]
        series.append({"label": line.label, "points": points, **more})
    return series


def _point(x: float, cell: Cell) -> dict[str, Any]:
    ours = cell.ours if isinstance(cell.ours, float) else None
    published = None if cell.published is None else float(cell.published)
    return {
        "x": x, "ours": ours, "low": cell.low, "high": cell.high, "published": published,
        "reason": cell.reason,
    }  # fmt: skip


def beyond(
    shares: Sequence[float], cells: Sequence[Cell], most: float | None = None
) -> dict[str, Any]:
    """What a power law of the trainings' scores says of more pairs; ``most``: the greatest score.

    ``doubt`` is the reason why the curve does not say it, if there is one. Otherwise ``points`` are
    the scores expected of as many trainings on more pairs, and ``exponent`` is the law's, with its
    interval.
    """
    if len(cells) == 1:
        return {"doubt": "too short: 1 number of pairs"}
    scored = [(x, v) for x, c in zip(shares, cells, strict=True) for v in c.by_seed.values()]
    numbers, scores = [x for x, _ in scored], [value for _, value in scored]
    trainings = min((len(cell.by_seed) for cell in cells if cell.by_seed), default=0)
    if len(numbers) < LEAST_NUMBERS:
        return {"doubt": f"too short: {len(numbers)} trainings"}
    if max(numbers) < shares[-1]:  # "twice the pairs" would be twice fewer
        return {"doubt": f"too short: no score at {shares[-1]:g}"}
    if cells[-1].unlearnt:
        of = f"{cells[-1].unlearnt} of {len(cells[-1].by_seed)} trainings at {shares[-1]:g}"
        return {"doubt": f"too early: {of} do not differ from permuted pairs"}
    try:
        law = fit(numbers, scores)
    except ValueError as error:
        return {"doubt": f"too short: {error}"}
    reason = doubt(law, numbers, trainings)
    if reason is not None:
        return {"doubt": reason}
    points = [
        {"x": law.largest * times, **law.expected(law.largest * times, trainings).as_json()}
        for times in (1, *MORE)
    ]
    if most is not None:
        if points[-1]["value"] > most:
            passes = f"too near the top: the law passes {most:g}, the greatest score there is"
            return {"doubt": passes}
        points = [{**point, "high": min(point["high"], most)} for point in points]
    return {"doubt": None, "exponent": law.exponent().as_json(), "points": points}


def beyond_words(line: dict[str, Any], column: Column) -> str:
    """A sentence on what more pairs would give."""
    more = line["more"]
    if more["doubt"] is not None:
        return f"{line['label']}: does not say what more pairs would give; {more['doubt']}."
    said = [
        f"{times} times the pairs {number(point['value'], column)} "
        f"({number(point['low'], column)} to {number(point['high'], column)})"
        for times, point in zip(MORE, more["points"][1:], strict=True)
    ]
    ends = more["exponent"]
    return (
        f"{line['label']}: expected of {', of '.join(said)}; by a power law with an exponent of "
        f"{ends['value']:.2f} ({ends['low']:.2f} to {ends['high']:.2f})."
    )


def _has(line: dict[str, Any], kind: str) -> bool:
    """True if the series has a value of ours, or a published one."""
    return any(point[kind] is not None for point in line["points"])


def draw(figure: CurveFigure, series: Sequence[dict[str, Any]], label: str, ours: str) -> bytes:
    """Draw the picture as PNG; ``label`` names the y axis, ``ours`` our lines in the legend."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    canvas = Canvas(figsize=(6.4, 4.0), dpi=110, layout="constrained")
    axes = canvas.add_subplot()
    if figure.x.log:
        axes.set_xscale("log")
    ticks = [*figure.x.values]
    if figure.power_law:
        ticks += [ticks[-1] * times for times in MORE]
    axes.set_xticks(ticks, [format(x, "g") for x in ticks])
    axes.minorticks_off()
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(fill(label, _LABEL))
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    handles = []
    for number_, line in enumerate(series):
        colour = f"C{number_}"
        if _has(line, "ours") or _has(line, "published"):
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
        beyond_points = line.get("more", {}).get("points", [])
        xs = [p["x"] for p in beyond_points]
        axes.plot(xs, [p["value"] for p in beyond_points], color=colour, linestyle=":")
        lows, highs = ([p[end] for p in beyond_points] for end in ("low", "high"))
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.06, linewidth=0)
    handles.append(Line2D([], [], color="0.3", marker="o", markersize=4, label=ours))
    if any(_has(line, "published") for line in series):
        handles.append(
            Line2D([], [], color="0.3", marker="o", fillstyle="none", linestyle="--", markersize=4,
                   label="published")
        )  # fmt: skip
    if figure.power_law:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label="expected of more pairs"))
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="best")
    return png_bytes(canvas)


def main(argv: Sequence[str] | None = None) -> None:
    read = read_figure(argv, __doc__, CurveFigure)
    figure = read.figure
    column = read.paper.tables[figure.table].column(figure.column)
    series = read_series(read.paper, figure, read.results, read.tests)
    png = draw(figure, series, figure.y or column.label, read.ours)
    lines = [
        f"{line['label']}: "
        + ", ".join(
            f"{'–' if point['ours'] is None else number(point['ours'], column)} at {point['x']:g}"
            for point in line["points"]
        )
        for line in series
    ]
    if figure.power_law:
        lines += [beyond_words(line, column) for line in series]
    reasons = {point["reason"] for line in series for point in line["points"]}
    write_picture(read.output, png, figure, read.results, lines, reasons, {"series": series})
    log.info("%s: %d series", read.output, len(series))


if __name__ == "__main__":
    run(main)
