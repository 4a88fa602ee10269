"""Notes about the rows without a model: does a table ask anything, and what has the majority?

A floor is what a score is without learning, a ceiling a row that must succeed. Where no ceiling is
above the best floor, no model can show anything. Where one that learns is not, and one that is told
the answers is, it is hard to learn.
"""

from collections.abc import Iterable, Mapping
from math import hypot
from typing import Any

from cxrflow.papers.table import Column, Row, Table
from cxrflow.show.tables.cells import SMALLER, Cell
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.text import number

Scored = tuple[Row, Cell, float]
#: Metrics that no row should raise: what data have, similarities by themselves, effects.
UNORDERED = (
    *("majority", "most_frequent_accuracy", "chance", "classes", "verbatim", "verbatim_reference"),
    *("syn_sim", "contradiction_sim", "neutral_sim", "map_shift", "delta", "prompts_spread"),
    "rare_less_common",
)
NONE = "No row of this table must succeed, so it does not show whether anything could: "
ON_REAL_DATA = "what people have written down is no truth that a row must reach."
NOT_SCORED = "no ceiling was scored."


def notes_on_ceilings(table: Table, cells: Iterable[Cell], results: Results) -> list[str]:
    """Sentences about columns whose ceiling is not above the floors, or of a table without one."""
    scored = _by_metric(table, cells)
    rows = [row for of_metric in scored.values() for row, _, _ in of_metric]
    notes: dict[str, None] = {}
    for (label, _, metric), of_metric in scored.items():
        floors = [each for each in of_metric if each[0].is_baseline]
        ceilings = [each for each in of_metric if each[0].ceiling]
        if floors and ceilings and _is_ordered(metric):
            floor = _best(metric, floors)
            failing = [each for each in ceilings if not _above(metric, each, floor)]
            if len(failing) == len(ceilings):  # the best of them stands for all
                failing, words = [_best(metric, ceilings)], "Asks nothing here"
            else:
                words = "Hard to learn here"
            column = table.column(floor[1].column)
            for ceiling in failing:
                texts = [_told(each, column) for each in (ceiling, floor)]
                notes[f"{words}: {label}, where {texts[0]} does not exceed {texts[1]}."] = None
    if any(row.is_baseline for row in rows) and not any(row.ceiling for row in rows):
        notes[NONE + (NOT_SCORED if results.synthetic else ON_REAL_DATA)] = None
    return list(notes)


def _by_metric(table: Table, cells: Iterable[Cell]) -> Mapping[tuple[str, str, str], list[Scored]]:
    """The numbers of rows without a model by label of column, task and metric."""
    rows = {row.label: row for row in table.rows if row.is_reference}
    scored: dict[tuple[str, str, str], list[Scored]] = {}
    for cell in cells:
        if cell.row in rows and isinstance(cell.ours, float):
            row, column = rows[cell.row], table.column(cell.column)
            if column.metric is not None:
                key = (f"“{column.label}”", table.task_of(row, column), row.metric_of(column))
                scored.setdefault(key, []).append((row, cell, cell.ours))
    return scored


def _is_ordered(metric: str) -> bool:
    """False of a metric that no row should raise: of data, a control, a similarity by itself."""
    return metric.split("/")[0] not in UNORDERED and "other_" not in metric


def _best(metric: str, rows: list[Scored]) -> Scored:
    sign = -1 if metric.startswith(SMALLER) else 1
    return max(rows, key=lambda each: sign * each[2])


def _above(metric: str, ceiling: Scored, floor: Scored) -> bool:
    """Whether the interval of their difference excludes zero.

    It combines both intervals as of independent values (MOVER: Zou and Donner 2008, Stat Med
    27:1693); scores of the same samples correlate, so it is wide rather than short.
    """
    smaller = metric.startswith(SMALLER)
    best, least = (floor, ceiling) if smaller else (ceiling, floor)
    (_, upper, upper_value), (_, lower, lower_value) = best, least
    below = 0.0 if upper.low is None else upper_value - upper.low
    above = 0.0 if lower.high is None else lower.high - lower_value
    return upper_value - lower_value > hypot(below, above)


def _told(scored: Scored, column: Column) -> str:
    row, cell, value = scored
    ends = ""
    if cell.low is not None and cell.high is not None:
        ends = f" ({number(cell.low, column)} to {number(cell.high, column)})"
    kind = "" if row.ceiling else "the baseline "
    return f"{kind}“{row.label}” with {number(value, column)}{ends}"


def notes_on_majority(table: Table, results: Results) -> list[str]:
    """Sentences about what always answering the more frequent class has where accuracy stands."""
    shares: dict[tuple[str, str], None] = {}
    for spot in table.spots:
        column = spot.column
        for run in results.of(spot.result):
            share = _majority(run, spot.metric)
            if share is not None and not spot.is_blank:
                shares[f"“{column.label}”", number(share * column.scale, column)] = None
    text = "; ".join(f"{label} {value}" for label, value in shares)
    return [f"Always answering the more frequent class has: {text}."] if text else []


def _majority(run: Mapping[str, Any], metric: str) -> float | None:
    """The share of the more frequent of two classes behind an accuracy, if it is known."""
    name, slash, rest = metric.partition("/")
    if name != "accuracy" or metric not in run["metrics"]:
        return None
    counts = run["metrics"].get(f"auroc{slash}{rest}", {})
    sides = [counts.get("positives"), counts.get("negatives")]
    return None if None in sides or not any(sides) else float(max(sides) / sum(sides))
