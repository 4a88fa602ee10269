"""Draw a figure of a paper's cells over a common quantity, such as the share of labels.

    cxrflow draw_curve --paper biovil --figure labels --metrics … --output labels.png

Ours are drawn with their intervals, the published values dashed in the same colour. A JSON file
beside the picture says what it shows, and why values of ours are missing.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from cxr_files.atomic import read_object
from cxr_files.program import run
from cxrflow.metrics.forecast import FARTHEST, doubt, fit
from cxrflow.papers import Paper
from cxrflow.papers.figures import CurveFigure
from cxrflow.papers.table import Column
from cxrflow.show.figures.picture import drawn, png_bytes, read_figure, write_picture
from cxrflow.show.tables.cells import Cell, make_cell
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.tests import Tests
from cxrflow.show.tables.text import number

log = logging.getLogger("cxrflow")

_LABEL = 40  # letters beside the y axis
#: Metrics that are never above 1, by a part of their names.
SHARES_OF_ONE = {
    *("auroc", "query_auroc", "recall", "average_precision", "accuracy", "balanced_accuracy"),
    *("sensitivity", "specificity", "f1"),
}


@dataclass(frozen=True)
class Trainings:
    """What run.json files say of the trainings behind a figure, by model.

    ``pairs``: how many the trainings of a model read; ``separate``: the models of which each
    seed has read pairs of its own.
    """

    pairs: Mapping[str, int] = field(default_factory=dict)
    separate: frozenset[str] = frozenset()

    @classmethod
    def read(cls, files: Sequence[Path]) -> "Trainings":
        """Read run.json files; of published weights nothing is known."""
        runs = [read_object(file, {"model": str}) for file in files]
        runs = [run for run in runs if (run.get("data") or {}).get("train_samples")]
        separate = [r for r in runs if (r.get("settings") or {}).get("training_subset") == "each"]
        return cls(
            {run["model"]: int(run["data"]["train_samples"]) for run in runs},
            frozenset(run["model"] for run in separate),
        )


def read_series(
    paper: Paper,
    figure: CurveFigure,
    results: Results,
    tests: Tests,
    trainings: Trainings | None = None,
) -> list[dict[str, Any]]:
    """The points of each series; a series of one cell has it at every value of the x axis.

    In a figure with a forecast also ``more``, what it says of more pairs (:func:`beyond`), and
    ``pairs``, how many all of them are, where that is known.
    """
    series, trainings = [], trainings or Trainings()
    for line in figure.series:
        spots = [paper.spot(place) for place in figure.cells(line)]
        cells = [make_cell(spot, results, tests) for spot in spots]
        bounded = SHARES_OF_ONE & {*spots[-1].metric.split("/")}
        most = spots[-1].column.scale if bounded else None
        models = [spot.model or "" for spot in spots]
        separate = [name in trainings.separate for name in models]
        more: dict[str, Any] = {}
        if figure.forecast:
            more = {
                "more": beyond(figure.x.values, cells, most, separate),
                "pairs": trainings.pairs.get(models[-1]),
            }
        if len(cells) == 1:
            cells *= len(figure.x.values)
        points = [{"x": x, **drawn(cell)} for x, cell in zip(figure.x.values, cells, strict=True)]
        series.append({"label": line.label, "points": points, **more})
    return series


def beyond(
    shares: Sequence[float],
    cells: Sequence[Cell],
    most: float | None = None,
    separate: Sequence[bool] | None = None,
) -> dict[str, Any]:
    """What the trainings' scores say of twice the pairs; ``most``: the greatest score there is.

    ``separate``: of which shares each seed has read pairs of its own. ``doubt`` is the reason why
    the curve does not say it, if there is one. Otherwise ``points`` are the scores expected of as
    many trainings on as many and on twice the pairs, and ``families`` those that were not refuted.
    """
    separate = separate or [False] * len(cells)
    rows = zip(shares, cells, separate, strict=True) if len(cells) == len(shares) else ()
    scored = [
        (x, score, (x, seed if alone else None))
        for x, cell, alone in rows
        for seed, score in cell.by_seed.items()
    ]
    if len(cells) == 1:
        return {"doubt": "1 number of pairs"}
    if not cells[-1].by_seed:  # "twice the pairs" would be twice fewer
        return {"doubt": f"no score at {shares[-1]:g}"}
    if cells[-1].unlearnt:
        of = f"{cells[-1].unlearnt} of {len(cells[-1].by_seed)} trainings at {shares[-1]:g}"
        return {"doubt": f"{of} have not learnt; it would take longer trainings, or more pairs"}
    numbers, scores, sets = zip(*scored, strict=True)
    trainings = min(len(cell.by_seed) for cell in cells if cell.by_seed)
    try:
        curve = fit(numbers, scores, sets)
    except ValueError as error:
        return {"doubt": str(error)}
    reason = doubt(curve, trainings)
    if reason is not None:
        return {"doubt": reason}
    points = []
    for times in (1, FARTHEST):
        point = curve.expected(curve.largest * times, trainings)
        ends = {"value": point.value, "low": point.low, "high": point.high}
        if most is not None:
            ends = {name: min(value, most) for name, value in ends.items()}
        points.append({"x": curve.largest * times, **ends, "n": point.n})
    return {"doubt": None, "families": [*curve.families], "points": points}


def beyond_words(line: Mapping[str, Any], column: Column) -> str:
    """A sentence on what twice the pairs would give, beside the score of all pairs today."""
    more = line["more"]
    if more["doubt"] is not None:
        return (
            f"{line['label']}: too few points to say what more pairs would give: {more['doubt']}."
        )
    today, twice, pairs = line["points"][-1]["ours"], more["points"][-1], line.get("pairs")
    value, low, high = (twice[end] for end in ("value", "low", "high"))
    gains = [number(end - today, column, sign=True) for end in (value, low, high)]
    count = f"about {_rounded(pairs):,} more pairs" if pairs else "as many pairs again"
    return (
        f"{line['label']}: {count} for {gains[0]} ({gains[1]} to {gains[2]}): from "
        f"{number(today, column)} to {number(value, column)} ({number(low, column)} to "
        f"{number(high, column)}), by {', '.join(more['families'])}."
    )


def _rounded(pairs: int) -> int:
    """A number of pairs to two digits."""
    return int(float(f"{pairs:.2g}"))


def _has(line: dict[str, Any], kind: str) -> bool:
    """True if the series has a value of ours, or a published one."""
    return any(point[kind] is not None for point in line["points"])


def _known(points: Sequence[dict[str, Any]], *names: str) -> list[list[float]]:
    """The x of the points that have all these values, and the values."""
    there = [point for point in points if all(point[name] is not None for name in names)]
    return [[point[name] for point in there] for name in ("x", *names)]


def draw(figure: CurveFigure, series: Sequence[dict[str, Any]], label: str, ours: str) -> bytes:
    """Draw the picture as PNG; ``label`` names the y axis, ``ours`` our lines in the legend."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    canvas = Canvas(figsize=(6.4, 4.0), dpi=110, layout="constrained")
    axes = canvas.add_subplot()
    if figure.x.log:
        axes.set_xscale("log")
    ticks = [*figure.x.values]
    if figure.forecast:
        ticks.append(ticks[-1] * FARTHEST)
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
        points = line["points"]
        axes.plot(*_known(points, "ours"), color=colour, marker="o", markersize=4)
        xs, lows, highs = _known(points, "low", "high")
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.12, linewidth=0)
        xs, ys = _known(points, "published")
        axes.plot(xs, ys, color=colour, marker="o", markersize=4, fillstyle="none", linestyle="--")
        points = line.get("more", {}).get("points", [])
        axes.plot(*_known(points, "value"), color=colour, linestyle=":")
        xs, lows, highs = _known(points, "low", "high")
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.06, linewidth=0)
    handles.append(Line2D([], [], color="0.3", marker="o", markersize=4, label=ours))
    if any(_has(line, "published") for line in series):
        handles.append(
            Line2D([], [], color="0.3", marker="o", fillstyle="none", linestyle="--", markersize=4,
                   label="published")
        )  # fmt: skip
    if figure.forecast:
        handles.append(Line2D([], [], color="0.3", linestyle=":", label="expected of more pairs"))
    axes.legend(handles=handles, frameon=False, fontsize=8, loc="best")
    return png_bytes(canvas)


def main(argv: Sequence[str] | None = None) -> None:
    read = read_figure(argv, __doc__, CurveFigure, trainings=True)
    figure = read.figure
    column = read.paper.tables[figure.table].column(figure.column)
    series = read_series(
        read.paper, figure, read.results, read.tests, Trainings.read(read.trainings)
    )
    png = draw(figure, series, figure.y or column.label, read.ours)
    lines = [
        f"{line['label']}: "
        + ", ".join(
            f"{'–' if point['ours'] is None else number(point['ours'], column)} at {point['x']:g}"
            for point in line["points"]
        )
        for line in series
    ]
    if figure.forecast:
        lines += [beyond_words(line, column) for line in series]
    reasons = {point["reason"] for line in series for point in line["points"]}
    write_picture(read.output, png, figure, read.results, lines, reasons, {"series": series})
    log.info("%s: %d series", read.output, len(series))


if __name__ == "__main__":
    run(main)
